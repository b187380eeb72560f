//! A file with flavors, in TOML: a table `[flavors."NAME"]` for each.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use crate::planner::flavor::Flavor;
use crate::store::planner::flavors::SetFlavor;

/// Maximum number of flavors in a file.
const FLAVORS_MAX: usize = 10_000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    flavors: BTreeMap<String, Entry>,
}

/// A flavor, with the names of the options of `berth flavor set`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    id: Option<String>,
    vcpus: i32,
    ram: i32,
    #[serde(default)]
    disk: i32,
    #[serde(default)]
    ephemeral: i32,
    #[serde(default)]
    swap: i32,
    #[serde(default)]
    properties: BTreeMap<String, String>,
}

/// The flavors of a file.
///
/// # Errors
/// A message: the file cannot be read, or a flavor is invalid.
pub fn read(path: &Path) -> Result<Vec<SetFlavor>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string());
    text.and_then(|text| parse(&text)).map_err(|why| format!("{}: {why}", path.display()))
}

fn parse(text: &str) -> Result<Vec<SetFlavor>, String> {
    let file: File = toml::from_str(text).map_err(|error| super::file::unreadable(text, &error))?;
    if file.flavors.len() > FLAVORS_MAX {
        return Err(format!("a file may have at most {FLAVORS_MAX} flavors"));
    }
    file.flavors.into_iter().map(|(name, entry)| entry.flavor(name)).collect()
}

impl Entry {
    fn flavor(self, name: String) -> Result<SetFlavor, String> {
        let flavor = Flavor {
            name,
            vcpus: self.vcpus,
            ram_mb: self.ram,
            root_gb: self.disk,
            ephemeral_gb: self.ephemeral,
            swap_mb: self.swap,
            extra_specs: self.properties,
            ..Flavor::default()
        };
        SetFlavor::new(flavor, self.id)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{parse, read};

    #[test]
    fn the_sample_is_a_file_with_flavors() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("samples/flavors.toml");
        let flavors = read(&path).unwrap();
        let gold = flavors.iter().find(|wanted| wanted.flavor.name == "gold.large").unwrap();
        assert_eq!((gold.flavor.vcpus, gold.flavor.id.as_str()), (4, "gold.large"));
        assert!(!gold.flavor.size().unwrap().required.is_empty());
    }

    #[test]
    fn faults_are_named() {
        for (text, words) in [
            ("", "flavors"),
            ("flavors = 1", "line 1"),
            ("[flavours.a]\nvcpus = 1\nram = 1", "unknown field"),
            ("[flavors.a]\nram = 1", "missing field `vcpus`"),
            ("[flavors.a]\nvcpus = 1\nram = 1\ncolour = 1", "unknown field `colour`"),
            ("[flavors.a]\nvcpus = 1\nram = \"1\"", "line 3"),
            ("[flavors.a]\nvcpus = 99999999999\nram = 1", "line 2"),
            ("[flavors.a]\nvcpus = 0\nram = 1", "vcpus must be at least 1"),
            ("[flavors.\"\"]\nvcpus = 1\nram = 1", "the name is empty"),
            (
                "[flavors.a]\nvcpus = 1\nram = 1\nproperties = {\"resourcesä:A\" = \"1\"}",
                "not a valid suffix of a group",
            ),
        ] {
            let why = parse(text).unwrap_err();
            assert!(why.contains(words), "{text}: {why}");
        }
        assert!(read(Path::new("/no/such/file")).unwrap_err().contains("/no/such/file"));
    }
}
