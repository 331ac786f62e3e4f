"""Raw text: parallel files, archives, downloads, splits and checks."""
