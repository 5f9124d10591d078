module webhookcheck

go 1.19
