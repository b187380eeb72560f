//! `clouds.yaml` and `secure.yaml`: a file with clouds by name, and one with their secrets.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use saphyr::{LoadableYamlNode, Scalar, Yaml};

const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// Candidate paths of the files; the first existing one is used.
#[derive(Clone, Debug)]
pub(super) struct Places {
    clouds: Vec<PathBuf>,
    secure: Vec<PathBuf>,
}

impl Places {
    /// The file in `OS_CLIENT_CONFIG_FILE` (`OS_CLIENT_SECURE_FILE`), or else the first in the working directory, the
    /// user's configuration, and /etc/openstack.
    pub(super) fn usual() -> Self {
        let user = std::env::var_os("XDG_CONFIG_HOME")
            .map(PathBuf::from)
            .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".config")));
        let folders = [
            Some(PathBuf::from(".")),
            user.map(|folder| folder.join("openstack")),
            Some(PathBuf::from("/etc/openstack")),
        ];
        let folders: Vec<PathBuf> = folders.into_iter().flatten().collect();
        let named = |variable: &str, stem: &str| match std::env::var_os(variable) {
            Some(file) if !file.is_empty() => vec![PathBuf::from(file)],
            _ => in_folders(&folders, stem),
        };
        Self {
            clouds: named("OS_CLIENT_CONFIG_FILE", "clouds"),
            secure: named("OS_CLIENT_SECURE_FILE", "secure"),
        }
    }

    #[cfg(test)]
    pub(super) fn within(folder: &Path) -> Self {
        let folders = [folder.to_owned()];
        Self { clouds: in_folders(&folders, "clouds"), secure: in_folders(&folders, "secure") }
    }
}

fn in_folders(folders: &[PathBuf], stem: &str) -> Vec<PathBuf> {
    let files = |folder: &PathBuf| {
        let folder = folder.clone();
        EXTENSIONS.map(|extension| folder.join(stem).with_extension(extension))
    };
    folders.iter().flat_map(files).collect()
}

/// The settings of a cloud: those within `auth`, and those beside it.
pub(super) fn find(name: &str, places: &Places) -> Result<BTreeMap<String, String>, String> {
    let Some(file) = places.clouds.iter().find(|file| file.is_file()) else {
        let files: Vec<String> =
            places.clouds.iter().map(|file| file.display().to_string()).collect();
        return Err(format!(
            "there is no clouds.yaml with a cloud {name}; searched for: {}",
            files.join(", ")
        ));
    };
    let mut settings = BTreeMap::new();
    if !read(file, name, &mut settings)? {
        return Err(format!("{} has no cloud {name}", file.display()));
    }
    if let Some(file) = places.secure.iter().find(|file| file.is_file()) {
        read(file, name, &mut settings)?;
    }
    if let Some(profile) = settings.get("profile").or_else(|| settings.get("cloud")) {
        return Err(format!(
            "cloud {name} is described by the profile {profile}: profiles are not supported. Put what \
             it says into the cloud itself"
        ));
    }
    Ok(settings)
}

/// Adds a cloud's settings from a file. Returns whether the file has the cloud.
fn read(file: &Path, name: &str, into: &mut BTreeMap<String, String>) -> Result<bool, String> {
    let wrong = |why: String| format!("{}: {why}", file.display());
    let text = std::fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
    let documents = Yaml::load_from_str(&text).map_err(|error| wrong(error.to_string()))?;
    let clouds = documents.first().and_then(|top| member(top, "clouds"));
    let Some(cloud) = clouds.and_then(|clouds| member(clouds, name)) else { return Ok(false) };
    let Some(settings) = cloud.as_mapping() else {
        return Err(wrong(format!("cloud {name} must be a mapping of names to values")));
    };
    for (key, value) in settings {
        let Some(key) = key.as_str() else { continue };
        match (key, value) {
            ("auth", Yaml::Mapping(auth)) => {
                for (key, value) in auth {
                    let (Some(key), Some(value)) = (key.as_str(), text_of(value)) else { continue };
                    into.insert(name_of(key), value);
                }
            }
            // Without region_name, the first region of the list is used.
            ("regions", Yaml::Sequence(regions)) => {
                let first = regions.first();
                let first =
                    first.and_then(|it| text_of(it).or_else(|| text_of(member(it, "name")?)));
                if let Some(first) = first {
                    into.entry("region_name".to_owned()).or_insert(first);
                }
            }
            ("region_name", value) => {
                into.extend(text_of(value).map(|value| (key.to_owned(), value)));
            }
            (key, value) => {
                into.extend(text_of(value).map(|value| (name_of(key), value)));
            }
        }
    }
    Ok(true)
}

/// The name of a setting: both `auth-url` and `auth_url` are used.
fn name_of(key: &str) -> String {
    key.replace('-', "_")
}

fn member<'y>(of: &'y Yaml<'y>, name: &str) -> Option<&'y Yaml<'y>> {
    let mapping = of.as_mapping()?;
    mapping.iter().find(|(key, _)| key.as_str() == Some(name)).map(|(_, value)| value)
}

/// A scalar as text: `verify: false` and `project_id: 12` are not strings in YAML.
fn text_of(value: &Yaml<'_>) -> Option<String> {
    let Yaml::Value(scalar) = value else { return None };
    match scalar {
        Scalar::String(text) => Some(text.clone().into_owned()),
        Scalar::Boolean(value) => Some(value.to_string()),
        Scalar::Integer(value) => Some(value.to_string()),
        Scalar::FloatingPoint(value) => Some(value.to_string()),
        Scalar::Null => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{Places, find};

    #[test]
    fn a_cloud_is_made_of_both_files() {
        let folder = tempfile::tempdir().unwrap();
        let places = Places::within(folder.path());
        assert!(find("old", &places).unwrap_err().contains("clouds.yaml"));
        let clouds = "clouds:
  old:
    auth: {auth_url: 'http://k/v3', username: me, project_id: 12}
    regions: [one, two]
    verify: false
    placement-interface: internal
  listed: {regions: [{name: three, values: {}}], region_name: four}
  profiled: {profile: vendor}
  wrong: [1]
";
        fs::write(folder.path().join("clouds.yml"), clouds).unwrap();
        let secure = "{\"clouds\": {\"old\": {\"auth\": {\"password\": \"s3cret\"}}}}";
        fs::write(folder.path().join("secure.json"), secure).unwrap();
        let found: Vec<(String, String)> = find("old", &places).unwrap().into_iter().collect();
        let expected = [
            ("auth_url", "http://k/v3"),
            ("password", "s3cret"),
            ("placement_interface", "internal"),
            ("project_id", "12"),
            ("region_name", "one"),
            ("username", "me"),
            ("verify", "false"),
        ];
        assert_eq!(found, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert_eq!(find("listed", &places).unwrap()["region_name"], "four");
        assert!(find("profiled", &places).unwrap_err().contains("profile vendor"));
        assert!(find("wrong", &places).unwrap_err().contains("must be a mapping"));
        assert!(find("other", &places).unwrap_err().ends_with("clouds.yml has no cloud other"));
        fs::write(folder.path().join("clouds.yml"), "clouds: [").unwrap();
        assert!(find("old", &places).unwrap_err().contains("clouds.yml: "));
    }
}
