// Runs the documented snippet on vectors: a line `secret,header,body,now` each, the first three in hex.
package main

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"webhookcheck/webhook"
)

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		fields := strings.Split(lines.Text(), ",")
		now, err := strconv.ParseInt(fields[3], 10, 64)
		if err != nil {
			panic(err)
		}
		secret, header := string(decode(fields[0])), string(decode(fields[1]))
		fmt.Println(webhook.Verify(secret, header, decode(fields[2]), time.Unix(now, 0)))
	}
}

func decode(digits string) []byte {
	bytes, err := hex.DecodeString(digits)
	if err != nil {
		panic(err)
	}
	return bytes
}
