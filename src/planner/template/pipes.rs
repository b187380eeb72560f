//! Reads pipes: bandwidth between servers. Each server of a pipe holds it on its host, in both directions.

use serde_json::Value;

use super::properties::{Properties, integer};

/// The resource types of pipes, in all versions of the API.
pub(super) const PIPES: [&str; 3] = ["ATT::Valet::Pipe", "ATT::QoS::Pipe", "ATT::CloudQoS::Pipe"];

/// Maximum bandwidth, in kilobits per second.
const KILOBITS_MAX: i64 = i32::MAX as i64;

/// A pipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pipe {
    /// The servers and other resources that it names, by id or name.
    pub(super) ends: Vec<String>,
    /// In kilobits per second.
    pub(super) kilobits: i64,
}

/// Reads the properties of a pipe.
///
/// # Errors
/// The reason why the pipe is left out.
pub(super) fn read(properties: &Properties<'_>) -> Result<Pipe, String> {
    let ends = properties.references().map_err(|why| why.to_string())?;
    let bandwidth = properties.properties.get("bandwidth");
    let bandwidth = bandwidth.filter(|it| !it.is_null()).ok_or("it has no bandwidth")?;
    let factor = match bandwidth.get("units").and_then(Value::as_str) {
        Some("kbps") => 1,
        None | Some("Mbps") => 1000,
        Some("Gbps") => 1_000_000,
        Some("Tbps") => 1_000_000_000,
        Some(_) => return Err("its units are not kbps, Mbps, Gbps or Tbps".to_owned()),
    };
    let least = bandwidth.get("min").and_then(integer);
    let kilobits = least.and_then(|least| least.checked_mul(factor));
    let kilobits = kilobits.filter(|it| (1..=KILOBITS_MAX).contains(it));
    let kilobits = kilobits.ok_or("the min of its bandwidth is not an integer")?;
    Ok(Pipe { ends, kilobits })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::Pipe;
    use crate::planner::template::properties::Properties;

    fn pipe(bandwidth: &Value) -> Result<Pipe, String> {
        let properties = json!({"resources": ["a", {"get_resource": "b"}], "bandwidth": bandwidth});
        let properties = serde_json::from_value(properties).unwrap();
        super::read(&Properties { id: "p", properties })
    }

    #[test]
    fn the_least_bandwidth_counts_in_its_units() {
        for (bandwidth, expected) in [
            (json!({"min": 5}), 5000),
            (json!({"min": "5", "max": 10, "units": "kbps"}), 5),
            (json!({"min": 2, "units": "Gbps"}), 2_000_000),
        ] {
            let found = pipe(&bandwidth).unwrap();
            assert_eq!(
                (found.kilobits, found.ends),
                (expected, vec!["a".to_owned(), "b".to_owned()])
            );
        }
        for wrong in [
            Value::Null,
            json!({}),
            json!({"min": 0}),
            json!({"min": "many"}),
            json!({"min": 1, "units": "bit"}),
            json!({"min": 9, "units": "Tbps"}),
        ] {
            assert!(pipe(&wrong).is_err(), "{wrong}");
        }
    }
}
