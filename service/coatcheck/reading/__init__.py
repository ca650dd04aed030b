"""What reading an artifact takes: views, positions, sources. Mechanisms that use cases share."""
