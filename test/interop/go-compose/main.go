// Loads a Compose file as Docker Compose itself does, with every profile, and writes the project as JSON.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/compose-spec/compose-go/v2/cli"
)

func main() {
	options, err := cli.NewProjectOptions([]string{os.Args[1]},
		cli.WithEnv(os.Environ()), cli.WithProfiles([]string{"*"}), cli.WithInterpolation(true))
	if err != nil {
		log.Fatal(err)
	}
	project, err := options.LoadProject(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	text, err := project.MarshalJSON()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(text))
}
