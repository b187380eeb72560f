//! Suggests the nearest valid name for an invalid one.

/// Minimum similarity of two names for a suggestion, from 0 to 1.
const LIKENESS_MIN: f64 = 0.6;

/// `; did you mean "X"?` with the most similar name; empty if none is similar.
pub(crate) fn did_you_mean<'a>(
    written: &str,
    names: impl IntoIterator<Item = impl Into<&'a str>>,
) -> String {
    let likeness = |name: &str| strsim::normalized_damerau_levenshtein(written, name);
    let known = names.into_iter().map(Into::into).map(|name: &str| (likeness(name), name));
    let nearest = known.max_by(|(one, _), (other, _)| one.total_cmp(other));
    match nearest {
        Some((likeness, name)) if likeness >= LIKENESS_MIN => format!("; did you mean {name:?}?"),
        Some(_) | None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::did_you_mean;

    #[test]
    fn the_nearest_name_is_offered_if_one_is_near() {
        let names = ["listen", "log", "sslmode"];
        assert_eq!(did_you_mean("lisen", names), "; did you mean \"listen\"?");
        assert_eq!(did_you_mean("sslmod", names), "; did you mean \"sslmode\"?");
        assert_eq!(did_you_mean("colour", names), "");
    }
}
