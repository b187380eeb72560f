//! Comparison of ids that clients have chosen.

use uuid::Uuid;

/// The canonical form of an id: a UUID, which has many spellings, in lower case with dashes; anything else
/// unchanged.
pub fn canonical(id: &str) -> String {
    Uuid::try_parse(id).map_or_else(|_| id.to_owned(), |uuid| uuid.to_string())
}

/// Returns whether two ids are the same.
pub fn same(one: &str, other: &str) -> bool {
    one == other || canonical(one) == canonical(other)
}

#[cfg(test)]
mod tests {
    use super::{canonical, same};

    #[test]
    fn a_uuid_is_the_same_in_every_spelling() {
        let dashed = "5c0bfa84-6b1c-4bbd-9d2f-7e8a4c3de901";
        for spelling in [
            dashed,
            "5C0BFA84-6B1C-4BBD-9D2F-7E8A4C3DE901",
            "5c0bfa846b1c4bbd9d2f7e8a4c3de901",
            "{5c0bfa84-6b1c-4bbd-9d2f-7e8a4c3de901}",
            "urn:uuid:5c0bfa84-6b1c-4bbd-9d2f-7e8a4c3de901",
        ] {
            assert_eq!(canonical(spelling), dashed);
            assert!(same(spelling, dashed));
        }
    }

    #[test]
    fn anything_else_is_compared_as_it_is() {
        for other in ["", "68f61b2-26f3-cbc1-7981-5f52c937c0cd", "Stack", "stack ", "host@pool"] {
            assert_eq!(canonical(other), other);
        }
        assert!(!same("Stack", "stack"));
    }
}
