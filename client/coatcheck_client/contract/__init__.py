"""What the service and its clients share: the tools, and how text is made inert.

Pure, and small: the service imports it too, and a client imports it without a network.
"""
