"""Mechanisms that use cases share for storing payloads and finding them again."""
