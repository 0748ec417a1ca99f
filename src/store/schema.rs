//! The migrations of a board on PostgreSQL.

/// Those that this version knows.
pub static MIGRATIONS: sqlx::migrate::Migrator = sqlx::migrate!("migrations/postgres");

/// The newest one that this version knows.
pub fn newest_migration() -> i64 {
    MIGRATIONS.iter().map(|it| it.version).max().unwrap_or_default()
}
