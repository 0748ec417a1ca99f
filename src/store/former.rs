//! Boards of the builds before the first release, which had a migration for each change. One migration has
//! replaced theirs, and has the number of their last one: a board that has all of theirs is adopted, an
//! older one is refused. Both engines use the same statements. Pure.

use provost_actors::text::hex;
use sqlx::migrate::{Migration, Migrator};

/// The number of the migration that makes the whole schema.
pub const FIRST: i64 = 36;

/// The SHA-384 that those builds recorded for their last migration.
const LAST: &str = "4481e9c096251d9fd7b31f058da8109ecc3deb229d23e6434d1efed0f2f6ec85\
                    32b5e217c276b316fb6093274f751e6e";

/// A board that lacks some of those migrations; the number of its newest one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the database is of a build before the first release (its newest migration is {0}), whose schema this \
     version can't bring up to date. It was left as it is, and executors run on: start once the last build \
     that had one file a migration (the parent of the commit that removed migrations/0036_turn_facts.sql), \
     then this one"
)]
pub struct BeforeFirst(pub i64);

/// The migrations that a board records, each with its checksum.
pub const RECORDED: &str = "SELECT version, checksum FROM _sqlx_migrations WHERE success";
/// Removes the records of the migrations before `$1`.
pub const FORGET: &str = "DELETE FROM _sqlx_migrations WHERE version < $1";
/// Gives the record of migration `$1` the checksum and the description of the one that replaced it.
pub const ADOPT: &str =
    "UPDATE _sqlx_migrations SET checksum = $2, description = $3 WHERE version = $1";

/// The migration that `recorded`, the migrations of a board with their checksums, are replaced by. `None`:
/// the board is not of those builds, so nothing is to be replaced.
pub fn adopted<'a>(
    recorded: &[(i64, Vec<u8>)],
    migrations: &'a Migrator,
) -> Result<Option<&'a Migration>, BeforeFirst> {
    if recorded.iter().all(|(version, _)| *version >= FIRST) {
        return Ok(None);
    }
    let newest = recorded.iter().map(|(version, _)| *version).max().unwrap_or_default();
    let is_last = |(version, sum): &(i64, Vec<u8>)| *version == FIRST && hex(sum) == LAST;
    let first = migrations.iter().find(|it| it.version == FIRST);
    match first.filter(|_| newest == FIRST && recorded.iter().any(is_last)) {
        Some(first) => Ok(Some(first)),
        None => Err(BeforeFirst(newest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::open::MIGRATIONS;

    /// A migration of one of those builds.
    fn former(version: i64) -> (i64, Vec<u8>) {
        let digits = |at: usize| u8::from_str_radix(&LAST[at..at + 2], 16).unwrap();
        let last = (0..LAST.len()).step_by(2).map(digits).collect();
        (version, if version == FIRST { last } else { vec![1] })
    }

    #[test]
    fn a_board_is_adopted_if_it_has_the_last_of_the_former_migrations_and_none_after_it() {
        let found = |recorded: &[(i64, Vec<u8>)]| {
            adopted(recorded, &MIGRATIONS).map(|it| it.map(|it| it.version))
        };
        assert_eq!(found(&[]).unwrap(), None);
        assert_eq!(found(&[(FIRST, vec![1])]).unwrap(), None, "it is this version's");
        assert_eq!(found(&[(FIRST, vec![1]), (FIRST + 1, vec![1])]).unwrap(), None);
        assert_eq!(found(&[1, 35, 36].map(former)).unwrap(), Some(FIRST));
        for versions in [[1, 20, 20], [1, 23, 35], [35, 36, 37]] {
            assert_eq!(found(&versions.map(former)), Err(BeforeFirst(versions[2])));
        }
        let other = [former(35), (FIRST, vec![1])];
        assert_eq!(found(&other), Err(BeforeFirst(FIRST)));
    }
}
