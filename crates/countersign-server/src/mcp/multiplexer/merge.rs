//! Merges several JSON answers as text, so that numbers and unknown members stay as they were written.

use serde_json::value::RawValue;

use crate::mcp::frame::{members, quote};

/// Merges values: objects member by member, and lists into one list without repeated items. `true` wins over `false`,
/// and for anything else the first value is used.
pub fn merged(values: &[&RawValue]) -> String {
    let objects: Option<Vec<_>> = values
        .iter()
        .map(|value| members(value.get().as_bytes()))
        .collect();
    if let Some(objects) = objects.filter(|objects| !objects.is_empty()) {
        return object(objects);
    }
    let lists: Option<Vec<Vec<&RawValue>>> = values
        .iter()
        .map(|value| serde_json::from_str(value.get()).ok())
        .collect();
    if let Some(lists) = lists.filter(|lists| !lists.is_empty()) {
        return list(&lists);
    }
    let is_true = |value: &&RawValue| value.get() == "true";
    let is_bool = |value: &&RawValue| matches!(value.get(), "true" | "false");
    match values.first() {
        Some(_) if values.iter().all(is_bool) => values.iter().any(is_true).to_string(),
        Some(first) => first.get().to_owned(),
        None => "null".to_owned(),
    }
}

fn list(lists: &[Vec<&RawValue>]) -> String {
    let mut all: Vec<&str> = Vec::new();
    for item in lists.iter().flatten() {
        if !all.contains(&item.get()) {
            all.push(item.get());
        }
    }
    format!("[{}]", all.join(","))
}

fn object(objects: Vec<Vec<(String, &RawValue)>>) -> String {
    let mut all: Vec<(String, Vec<&RawValue>)> = Vec::new();
    for (name, value) in objects.into_iter().flatten() {
        match all.iter_mut().find(|(known, _)| *known == name) {
            Some((_, values)) => values.push(value),
            None => all.push((name, vec![value])),
        }
    }
    let written: Vec<String> = all
        .iter()
        .map(|(name, values)| format!("{}:{}", quote(name), merged(values)))
        .collect();
    format!("{{{}}}", written.join(","))
}

/// Merges the members of several list results, except for the items themselves. Of the cache lifetimes the shortest is
/// used, and of the cache scopes the narrowest.
pub fn merge_other_members(lists: &[Vec<(String, Box<RawValue>)>]) -> Vec<(String, String)> {
    let mut all: Vec<(String, Vec<&RawValue>)> = Vec::new();
    for (name, value) in lists.iter().flatten() {
        match all.iter_mut().find(|(known, _)| known == name) {
            Some((_, values)) => values.push(value),
            None => all.push((name.clone(), vec![value])),
        }
    }
    let write = |(name, values): (String, Vec<&RawValue>)| {
        let text = match name.as_str() {
            "ttlMs" => shortest(&values),
            "cacheScope" => narrowest(&values),
            _ => merged(&values),
        };
        (name, text)
    };
    all.into_iter().map(write).collect()
}

fn shortest(values: &[&RawValue]) -> String {
    let number = |value: &&&RawValue| value.get().parse::<f64>().unwrap_or(0.0);
    let least = values
        .iter()
        .min_by(|one, other| number(one).total_cmp(&number(other)));
    least.map_or_else(|| "0".to_owned(), |least| least.get().to_owned())
}

fn narrowest(values: &[&RawValue]) -> String {
    match values.iter().all(|value| value.get() == "\"public\"") {
        true => "\"public\"".to_owned(),
        false => "\"private\"".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(texts: &[&str], expected: &str) {
        let values: Vec<&RawValue> = texts
            .iter()
            .map(|text| serde_json::from_str(text).unwrap())
            .collect();
        assert_eq!(merged(&values), expected, "{texts:?}");
    }

    #[test]
    fn capabilities_are_put_together() {
        check(
            &[
                r#"{"tools":{"listChanged":false},"logging":{}}"#,
                r#"{"tools":{"listChanged":true},"x":{"n":1e2}}"#,
            ],
            r#"{"tools":{"listChanged":true},"logging":{},"x":{"n":1e2}}"#,
        );
        check(&["{}", "{}"], "{}");
        check(&["12345678901234567890123", "2"], "12345678901234567890123");
        check(&["false", "false"], "false");
        check(&["[1,{}]", "[{},2e0]"], "[1,{},2e0]");
        check(&[], "null");
    }

    #[test]
    fn a_merged_list_is_kept_as_carefully_as_the_most_careful_asks() {
        let list = |text: &str| -> Vec<(String, Box<RawValue>)> {
            let members = members(text.as_bytes()).unwrap();
            members
                .into_iter()
                .map(|(name, value)| (name, value.to_owned()))
                .collect()
        };
        let lists = [
            list(r#"{"resultType":"complete","ttlMs":9,"cacheScope":"public","_meta":{"a":1}}"#),
            list(r#"{"ttlMs":5,"cacheScope":"private","_meta":{"a":2,"b":3}}"#),
        ];
        let expected = [
            ("resultType", "\"complete\""),
            ("ttlMs", "5"),
            ("cacheScope", "\"private\""),
            ("_meta", r#"{"a":1,"b":3}"#),
        ];
        let expected: Vec<(String, String)> = expected
            .iter()
            .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
            .collect();
        assert_eq!(merge_other_members(&lists), expected);
    }
}
