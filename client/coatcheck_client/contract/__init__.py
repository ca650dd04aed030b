"""Definitions that the service and its clients share, such as the tools, and how text is made inert.

Pure and small, because the service imports this package too, and a client can import it without a network.
"""
