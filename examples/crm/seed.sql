INSERT INTO contact (id, name, email, company, phone, created_at) VALUES
    (1, 'John Miller', 'john@northwind.example', 'Northwind Traders', '+1 555 0100', '2026-08-03T09:12:00Z'),
    (2, 'Aiko Tanaka', 'aiko@kitsune.example', 'Kitsune Robotics', NULL, '2026-08-19T02:40:00Z'),
    (3, 'Samuel Okafor', 'sam@okafor.example', 'Okafor & Sons', '+234 555 0102', '2026-09-02T15:05:00Z'),
    (4, 'Lena Vogel', 'lena@vogel.example', 'Vogel Druck', '+49 555 0103', '2026-09-21T08:30:00Z'),
    (5, 'Priya Nair', 'priya@lotus.example', 'Lotus Clinics', NULL, '2026-10-05T11:55:00Z'),
    (6, 'John Adeyemi', 'j.adeyemi@harbor.example', 'Harbor Freight Lines', '+44 555 0105', '2026-10-28T16:20:00Z');
INSERT INTO deal (id, contact_id, title, amount, currency, stage, created_at) VALUES
    (1, 1, 'Northwind renewal', 18000, 'EUR', 'proposal', '2026-09-10T10:00:00Z'),
    (2, 2, 'Kitsune pilot', 6500, 'EUR', 'qualified', '2026-10-01T10:00:00Z'),
    (3, 3, 'Okafor fleet', 42000, 'EUR', 'lead', '2026-10-12T10:00:00Z'),
    (4, 4, 'Vogel onboarding', 3200, 'EUR', 'won', '2026-10-20T10:00:00Z'),
    (5, 5, 'Lotus scheduling', 9900, 'USD', 'proposal', '2026-11-02T10:00:00Z');
INSERT INTO task (id, contact_id, title, due, done, created_at) VALUES
    (1, 1, 'Send the renewal offer', '2026-11-18', 0, '2026-11-09T09:00:00Z'),
    (2, 2, 'Book the pilot kick-off', '2026-11-20', 0, '2026-11-10T09:00:00Z'),
    (3, NULL, 'Clean up old leads', NULL, 0, '2026-11-11T09:00:00Z'),
    (4, 4, 'Invoice the onboarding', '2026-11-03', 1, '2026-10-21T09:00:00Z');
INSERT INTO activity (id, contact_id, kind, note, at) VALUES
    (1, 1, 'call', 'Wants the renewal before the end of the year', '2026-11-06T14:00:00Z'),
    (2, 2, 'meeting', 'Showed the pilot, two questions on safety', '2026-11-07T03:00:00Z'),
    (3, 5, 'email', 'Asked for prices in dollars', '2026-11-09T12:30:00Z');
