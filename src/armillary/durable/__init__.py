"""Files written whole or not at all, and locks of the operating system: what every room that writes stands on."""
