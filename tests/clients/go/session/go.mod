module warmpool.example/session

go 1.23
