// Checks files of deploy/ with the code of those who define them; prints what is wrong, and exits 1.
//
//	deploytools compose FILE...   the Compose files as docker compose loads them, every profile on; prints the result as JSON
//	deploytools custom < YAML     custom resources of the Prometheus operator and of KEDA, unknown fields being errors
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/compose-spec/compose-go/v2/cli"
	keda "github.com/kedacore/keda/v2/apis/keda/v1alpha1"
	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	kyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

func main() {
	if len(os.Args) < 2 {
		fail(errors.New("usage: deploytools compose FILE... | custom"))
	}
	var err error
	switch os.Args[1] {
	case "compose":
		err = compose(os.Args[2:])
	case "custom":
		err = custom(os.Stdin)
	default:
		err = fmt.Errorf("unknown: %s", os.Args[1])
	}
	fail(err)
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// The environment is the caller's, as with docker compose.
func compose(files []string) error {
	options, err := cli.NewProjectOptions(files, cli.WithOsEnv, cli.WithProfiles([]string{"*"}))
	if err != nil {
		return err
	}
	project, err := options.LoadProject(context.Background())
	if err != nil {
		return err
	}
	text, err := project.MarshalJSON()
	if err == nil {
		_, err = os.Stdout.Write(text)
	}
	return err
}

var kinds = map[string]func() any{
	"keda.sh/v1alpha1/ScaledObject":           func() any { return &keda.ScaledObject{} },
	"keda.sh/v1alpha1/TriggerAuthentication":  func() any { return &keda.TriggerAuthentication{} },
	"monitoring.coreos.com/v1/PodMonitor":     func() any { return &monitoring.PodMonitor{} },
	"monitoring.coreos.com/v1/ServiceMonitor": func() any { return &monitoring.ServiceMonitor{} },
	"monitoring.coreos.com/v1/PrometheusRule": func() any { return &monitoring.PrometheusRule{} },
}

func custom(input io.Reader) error {
	documents := kyaml.NewYAMLReader(bufio.NewReader(input))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if len(bytes.TrimSpace(document)) == 0 {
			continue
		}
		var head struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
		}
		if err := yaml.Unmarshal(document, &head); err != nil {
			return err
		}
		name := head.APIVersion + "/" + head.Kind
		made, known := kinds[name]
		if !known {
			return fmt.Errorf("no type for %s", name)
		}
		if err := yaml.UnmarshalStrict(document, made()); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		fmt.Println(name)
	}
}
