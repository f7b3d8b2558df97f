// Command start prints how large programs are, and how long they take from exec to their end
// when all that they do is say their version. They take turns, so that what else the machine
// does hits all alike.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"time"
)

func main() {
	rounds := flag.Int("rounds", 101, "starts of each program")
	flag.Parse()
	if err := run(flag.Args(), *rounds); err != nil {
		fmt.Fprintln(os.Stderr, "start:", err)
		os.Exit(1)
	}
}

func run(programs []string, rounds int) error {
	if len(programs) == 0 || rounds < 1 {
		return fmt.Errorf("name the programs, and at least one round")
	}
	took := make([][]time.Duration, len(programs))
	for range rounds {
		for i, program := range programs {
			began := time.Now()
			if out, err := exec.Command(program, "version").CombinedOutput(); err != nil {
				return fmt.Errorf("%s version: %w\n%s", program, err, out)
			}
			took[i] = append(took[i], time.Since(began))
		}
	}
	fmt.Printf("%-28s %10s %10s %10s %10s\n", "program", "MB", "ms, least", "median", "most")
	for i, program := range programs {
		info, err := os.Stat(program)
		if err != nil {
			return err
		}
		all := took[i]
		slices.Sort(all)
		ms := func(d time.Duration) float64 { return d.Seconds() * 1000 }
		fmt.Printf("%-28s %10.1f %10.1f %10.1f %10.1f\n", program, float64(info.Size())/1e6, ms(all[0]), ms(all[len(all)/2]), ms(all[len(all)-1]))
	}
	return nil
}
