INSERT INTO page (id, slug, name, status) VALUES
    ('page-100', 'home', 'Homepage', 'published'),
    ('page-123', 'about', 'About Us', 'published'),
    ('page-140', 'contact', 'Contact', 'published'),
    ('page-201', 'test', 'Test Page', 'published'),
    ('page-202', 'old-landing', 'Old Landing', 'published'),
    ('page-301', 'draft-1', 'Draft 1', 'draft'),
    ('page-302', 'draft-2', 'Draft 2', 'draft'),
    ('page-303', 'draft-3', 'Draft 3', 'draft');
INSERT INTO section (id, page_id, position, heading, body) VALUES
    ('s-1001', 'page-100', 1, 'Welcome', 'Bread from a wood oven, every morning at six.'),
    ('s-1002', 'page-100', 2, 'Opening hours', 'Tuesday to Sunday, 6:00 to 13:00.'),
    ('s-1003', 'page-100', 3, 'This week', 'Rye with walnuts, and the plum cake is back.'),
    ('s-1231', 'page-123', 1, 'Our story', 'Three bakers, one oven, since 1998.'),
    ('s-1232', 'page-123', 2, 'The team', 'Ines, Karim and Ulla.'),
    ('s-1233', 'page-123', 3, 'Where our flour comes from', 'From the mill 12 km up the river.'),
    ('s-1401', 'page-140', 1, 'Write to us', 'hello@bakery.example'),
    ('s-2011', 'page-201', 1, 'Lorem', 'Testing, testing.'),
    ('s-2021', 'page-202', 1, 'Summer sale', 'Everything must go.'),
    ('s-2022', 'page-202', 2, 'Newsletter', 'Sign up below.'),
    ('s-3011', 'page-301', 1, 'Catering', 'To be written.'),
    ('s-3021', 'page-302', 1, 'Jobs', 'To be written.'),
    ('s-3022', 'page-302', 2, 'Apprentices', 'To be written.');
INSERT INTO navigation (slug, label, position) VALUES
    ('home', 'Home', 1),
    ('about', 'About', 2),
    ('contact', 'Contact', 3),
    ('old-landing', 'Sale', 4);
INSERT INTO post (id, slug, title, body, status, published_at) VALUES
    ('post-1', 'plum-cake', 'The plum cake is back', 'From Friday on, as long as there are plums.', 'published', '2026-09-04T06:00:00Z'),
    ('post-2', 'winter-hours', 'Winter hours', 'From December on we open at seven.', 'draft', NULL),
    ('post-3', 'christmas-orders', 'Order for Christmas', 'Until the 20th, at the counter or by mail.', 'draft', NULL),
    ('post-4', 'summer-2025', 'Closed in August', 'We are at the sea.', 'archived', '2025-07-20T06:00:00Z');
INSERT INTO image (id, filename, alt, path, bytes) VALUES
    ('img-1', 'oven.jpg', 'The wood oven', 'media/7f/3c/1', X'FFD8FFE000104A46494600'),
    ('img-2', 'team.jpg', 'Ines, Karim and Ulla', 'media/a0/11/2', X'FFD8FFE000104A46494601'),
    ('img-3', 'old-banner.png', 'Summer sale', 'media/c4/9e/3', X'89504E470D0A1A0A');
