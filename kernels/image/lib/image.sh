# The image directory.
