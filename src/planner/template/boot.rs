//! Finds out where the root disk of a server is, as Nova does: it is the device with boot index 0, and it is on the
//! host unless that device is a volume. Sources: `block_device_mapping_v2` of Nova's API and of Heat's
//! `OS::Nova::Server`; the latter has the source of a device in the name of the key.

use serde_json::{Map, Value};

use super::entries::RootDisk;
use super::properties::{integer, reference};
use crate::planner::json::Object;

/// Returns the place of the root disk of a server with these properties.
///
/// # Errors
/// The first fault of a block device mapping.
pub(super) fn root_disk(properties: &Object) -> Result<RootDisk, String> {
    let has_image = has(properties, "image");
    for device in devices(properties, "block_device_mapping_v2")? {
        let wrong = |why: &str| format!("block_device_mapping_v2: {why}");
        let is_volume = is_volume(device).map_err(wrong)?;
        let index = boot_index(device).map_err(wrong)?;
        // Heat gives index 0 to volumes that have none. Beside an image, Nova would refuse it.
        let is_root = match index {
            Some(index) => index == 0,
            None => is_volume_of_heat(device) && !has_image,
        };
        if is_root {
            return Ok(if is_volume { RootDisk::OnVolume } else { RootDisk::OnHost });
        }
    }
    // In the first version, the image is the root disk if there is one.
    let older = devices(properties, "block_device_mapping")?;
    let is_on_volume = !has_image && older.into_iter().any(is_volume_of_heat);
    Ok(if is_on_volume { RootDisk::OnVolume } else { RootDisk::OnHost })
}

/// The volumes in the block devices of a server with these properties, by their references.
pub(super) fn volumes(properties: Option<&Value>) -> impl Iterator<Item = &str> {
    let properties = properties.and_then(Value::as_object);
    let lists = ["block_device_mapping_v2", "block_device_mapping"].into_iter();
    let lists = lists.filter_map(move |key| devices(properties?, key).ok()).flatten();
    // In Nova's API, the volume is the source of the device.
    let source = |device: &&Map<String, Value>| {
        device.get("source_type").is_some_and(|source| source == "volume")
    };
    lists.filter_map(move |device| {
        let uuid = device.get("uuid").filter(|_| source(&device));
        reference(device.get("volume_id").or(uuid)?)
    })
}

fn devices<'p>(properties: &'p Object, key: &str) -> Result<Vec<&'p Map<String, Value>>, String> {
    let list = match properties.get(key) {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(list) => list.as_array(),
    };
    let devices = list.and_then(|list| list.iter().map(Value::as_object).collect());
    devices.ok_or_else(|| format!("{key}: not an array of dictionaries"))
}

/// Returns whether a device is a volume: it says so, or its source can be nothing else.
fn is_volume(device: &Map<String, Value>) -> Result<bool, &'static str> {
    let text = |key: &str| match device.get(key) {
        None | Some(Value::Null) => Some(""),
        Some(value) => value.as_str(),
    };
    match text("destination_type") {
        Some("volume") => return Ok(true),
        Some("local") => return Ok(false),
        Some("") => {}
        Some(_) | None => return Err("destination_type: must be volume or local"),
    }
    match text("source_type") {
        Some("volume" | "snapshot") => Ok(true),
        Some("image" | "blank") => Ok(false),
        Some("") => Ok(is_volume_of_heat(device)),
        Some(_) | None => Err("source_type: must be volume, snapshot, image or blank"),
    }
}

/// Returns whether a device is a volume in Heat's words: a volume, or a copy of a snapshot or an image.
fn is_volume_of_heat(device: &Map<String, Value>) -> bool {
    ["volume_id", "snapshot_id", "image", "image_id"].iter().any(|key| has(device, key))
}

fn boot_index(device: &Map<String, Value>) -> Result<Option<i64>, &'static str> {
    match device.get("boot_index") {
        None | Some(Value::Null) => Ok(None),
        Some(value) => integer(value).map(Some).ok_or("boot_index: not an integer"),
    }
}

fn has(object: &Map<String, Value>, key: &str) -> bool {
    object.get(key).is_some_and(|value| !value.is_null() && value != "")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{RootDisk, root_disk};

    fn of(properties: &Value) -> Result<RootDisk, String> {
        root_disk(properties.as_object().unwrap())
    }

    fn of_devices(devices: &Value) -> Result<RootDisk, String> {
        of(&json!({"block_device_mapping_v2": devices}))
    }

    #[test]
    fn the_root_disk_is_the_device_with_boot_index_0() {
        let on_volume = [
            json!([{"boot_index": 0, "source_type": "volume", "destination_type": "volume", "uuid": "v"}]),
            json!([{"boot_index": "0", "source_type": "image", "destination_type": "volume"}]),
            json!([{"boot_index": 0, "source_type": "blank", "destination_type": "volume"}]),
            json!([{"boot_index": 0, "source_type": "snapshot"}]),
            json!([{"boot_index": -1, "image": "i"}, {"volume_id": {"get_resource": "v"}}]),
            json!([{"image": "i", "volume_size": 10}]),
            json!([{"snapshot_id": "s"}, {"swap_size": 512}]),
        ];
        for devices in on_volume {
            assert_eq!(of_devices(&devices), Ok(RootDisk::OnVolume), "{devices}");
        }
        let on_host = [
            json!(null),
            json!([]),
            json!([{"boot_index": 0, "source_type": "image", "destination_type": "local"}]),
            json!([{"boot_index": 1, "source_type": "volume", "destination_type": "volume"}]),
            json!([{"source_type": "volume", "destination_type": "volume"}]),
            json!([{"boot_index": null, "source_type": "blank", "destination_type": "volume"}]),
            json!([{"boot_index": -1, "volume_id": "v"}]),
            json!([{"ephemeral_size": 10}, {"swap_size": 512}]),
        ];
        for devices in on_host {
            assert_eq!(of_devices(&devices), Ok(RootDisk::OnHost), "{devices}");
        }
    }

    #[test]
    fn an_image_is_the_root_disk_unless_a_device_says_that_it_is() {
        let devices = |index: Value| json!([{"volume_id": "v", "boot_index": index}]);
        for (image, index, expected) in [
            (json!("i"), json!(null), RootDisk::OnHost),
            (json!("i"), json!(0), RootDisk::OnVolume),
            (json!(""), json!(null), RootDisk::OnVolume),
        ] {
            let properties = json!({"image": image, "block_device_mapping_v2": devices(index)});
            assert_eq!(of(&properties), Ok(expected));
        }
        let older = json!([{"device_name": "vda", "volume_id": "v"}]);
        assert_eq!(of(&json!({"block_device_mapping": older})), Ok(RootDisk::OnVolume));
        let both = json!({"block_device_mapping": older, "image": "i"});
        assert_eq!(of(&both), Ok(RootDisk::OnHost));
    }

    #[test]
    fn malformed_devices_are_named() {
        for (devices, fault) in [
            (json!({"volume_id": "v"}), "not an array of dictionaries"),
            (json!(["v"]), "not an array of dictionaries"),
            (json!([{"volume_id": "v", "boot_index": "first"}]), "boot_index: not an integer"),
            (
                json!([{"source_type": "disk"}]),
                "source_type: must be volume, snapshot, image or blank",
            ),
            (json!([{"destination_type": 1}]), "destination_type: must be volume or local"),
        ] {
            assert_eq!(of_devices(&devices), Err(format!("block_device_mapping_v2: {fault}")));
        }
    }
}
