"""JSON and delimited tables read as far as they go, for whoever describes or outlines them."""
