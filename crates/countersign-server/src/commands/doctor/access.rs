//! Reports tokens and accounts that an earlier version created and this one does not accept.

use std::collections::HashMap;

use countersign::id::Tenant;
use countersign::name;
use countersign::store::{Store, StoreError};

use super::Finding;
use crate::access::{Account, Token};
use crate::output::foreign::named;

/// Checks the tokens and accounts of a tenant.
pub async fn check(store: &dyn Store, tenant: &Tenant) -> Result<Vec<Finding>, StoreError> {
    let tokens = Token::list(store, tenant).await?;
    let mixed = tokens.iter().filter(|(_, token)| token.scopes.role().is_none());
    let mixed = mixed.map(|(id, token)| {
        let name = named(token.name.as_str());
        Finding::warning(
            "tokens",
            format!(
                "token {id} of `{name}` combines {}, and so is not accepted",
                token.scopes
            ),
            format!("create one token for each role, then run `countersign token revoke {id}`"),
        )
    });
    let mut findings: Vec<Finding> = mixed.collect();
    let people = Account::list(store, tenant).await?;
    findings.extend(look_alikes(&people));
    for (index, account) in people.iter().enumerate() {
        let written = account.name.as_str();
        let is_twin = |other: &Account| other.name != account.name && other.name.is_same(&account.name);
        let why = match name::check(written) {
            Err(odd) => odd.to_string(),
            Ok(()) if people.iter().skip(index + 1).any(is_twin) => {
                "another account is written alike".to_owned()
            }
            Ok(()) => continue,
        };
        findings.push(Finding::warning(
            "people",
            format!("`{}` may not be able to sign in: {why}", named(written)),
            "remove the account with `countersign person remove NAME`, and add it under another name",
        ));
    }
    Ok(findings)
}

/// Reports accounts whose names can be taken for each other. Only an earlier version could create them.
fn look_alikes(people: &[Account]) -> Vec<Finding> {
    let mut known: HashMap<String, &Account> = HashMap::new();
    let mut findings = Vec::new();
    for account in people {
        let looks = name::looks(account.name.as_str());
        let other = looks.iter().find_map(|look| known.get(look));
        if let Some(other) = other.filter(|other| !other.name.is_same(&account.name)) {
            let (name, other) = (named(account.name.as_str()), named(other.name.as_str()));
            findings.push(Finding::warning(
                "people",
                format!("`{name}` can be taken for `{other}`"),
                "remove one of them with `countersign person remove NAME`, and add it under another name",
            ));
        }
        for look in looks {
            known.entry(look).or_insert(account);
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use countersign::id::Person;
    use countersign::time::Time;

    use super::*;

    #[test]
    fn x71_people_who_look_alike_are_named() {
        let account = |name: &str| Account::new(Person::new(name).unwrap(), Vec::new(), Time::from_micros(0));
        let names = [
            "ana",
            "bill",
            "anna",
            "bi1l",
            "Bill",
            "\u{441}\u{43e}\u{440}",
            "cop",
        ];
        let people: Vec<Account> = names.into_iter().map(account).collect();
        let found = look_alikes(&people);
        let found: Vec<String> = found.iter().map(|finding| finding.message.clone()).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("`bi1l` can be taken for `bill`"), "{found:?}");
        assert!(found[1].contains("`cop` can be taken for"), "{found:?}");
    }
}
