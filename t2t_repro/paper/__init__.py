"""The paper's tables 2 to 4: what it prints, and its rows as runs of this project's programs."""
