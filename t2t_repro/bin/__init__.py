"""The programs: each turns its flags into a request of what is to be done, and hands it on."""
