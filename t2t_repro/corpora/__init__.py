"""Raw text as people and servers have it: parallel files, archives, downloads, their cleaning."""
