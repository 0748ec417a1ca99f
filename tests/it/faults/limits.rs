//! Executors that go beyond what they are allowed.
