//! Time in JSON: RFC 3339 with milliseconds.

use countersign::time::Time;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Time of the store's clock, serialized as RFC 3339 in UTC with milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub Time);

impl From<Time> for Moment {
    fn from(time: Time) -> Moment {
        Moment(time)
    }
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Moment).map_err(serde::de::Error::custom)
    }
}
