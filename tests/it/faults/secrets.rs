//! Values that no log and no file of the home may hold.
