"""Plans, runs, undoes and holds back the removal of artifacts."""
