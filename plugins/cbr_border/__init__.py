"""One border around every part: what a part gives is checked where it enters. A package that plugins share."""
