"""The programs: each turns its flags into one request and makes one call."""
