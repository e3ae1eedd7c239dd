"""The OCI distribution protocol: references, authentication, a client, pushing."""
