"""From a depth camera to directions: normals, segments, and a room to try them in."""
