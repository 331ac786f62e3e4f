"""The programs: each turns its flags into a request and makes one call with it."""
