package endpoint

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/reach"
	"github.com/hopbench/hopbench/internal/service"
)

func agentInstallCommand() *cobra.Command {
	var f agentFlags
	var printFor string
	c := &cobra.Command{
		Use:   "install",
		Short: "Install the agent as a service that starts with this host",
		Long: `install makes the agent a service: a systemd unit (as its own user, which may only
use the network), a Windows service (as LocalService), or a launchd daemon
(as nobody). It starts at once, and with this host. A second install
replaces the first; hopbench agent uninstall removes it.

The service runs this program file, so move it to its final place first. On Windows
and macOS the user of the service must be able to read the token file.`,
		Example: `  sudo hopbench agent install --token-file /etc/hopbench/token
  hopbench agent install --token-file /etc/hopbench/token --print`,
		Args:              base.Exactly(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			return installAgent(c, f, printFor)
		},
	}
	f.define(c)
	if err := c.Flags().Set("listen", fmt.Sprintf(":%d", reach.DefaultPort)); err != nil {
		panic(err) // a mistake in define
	}
	c.Flags().Lookup("listen").DefValue = f.listen
	c.Flags().StringVar(&printFor, "print", "", "print what would be installed on this system, or on linux, darwin or windows, and install nothing")
	c.Flags().Lookup("print").NoOptDefVal = runtime.GOOS
	base.Complete(c, "print", base.OneOf(service.Systems...))
	return c
}

func agentUninstallCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "uninstall",
		Short:             "Stop and remove the installed agent",
		Args:              base.Exactly(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(c *cobra.Command, _ []string) error { return service.Uninstall(c.Context()) },
	}
}

// installAgent has the system start `hopbench agent` with the flags that were given.
func installAgent(c *cobra.Command, f agentFlags, printFor string) error {
	if _, err := f.options(); err != nil {
		return err
	}
	if _, err := listenAddress(f.listen); err != nil {
		return err
	}
	if f.tokenFile == "" {
		return base.Usage(errors.New("an agent takes orders only from who proves a token: name its file with --token-file"))
	}
	a := service.Agent{Args: []string{"agent"}}
	var err error
	if a.TokenFile, err = filepath.Abs(f.tokenFile); err != nil {
		return err
	}
	if a.Program, err = os.Executable(); err == nil {
		a.Program, err = filepath.EvalSymlinks(a.Program)
	}
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	c.Flags().Visit(func(flag *pflag.Flag) {
		switch values, list := flag.Value.(pflag.SliceValue); {
		case flag.Name == "token-file" || flag.Name == "print":
		case list:
			for _, v := range values.GetSlice() {
				a.Args = append(a.Args, "--"+flag.Name, v)
			}
		default:
			a.Args = append(a.Args, "--"+flag.Name, flag.Value.String())
		}
	})
	if printFor != "" {
		text, err := service.Describe(printFor, a)
		if err != nil {
			return base.Usage(err)
		}
		_, err = fmt.Fprint(c.OutOrStdout(), text)
		return err
	}
	token, err := base.ReadToken(f.tokenFile)
	if err != nil {
		return err
	}
	warnOfToken(c.ErrOrStderr(), f.tokenFile, token)
	if err := service.Install(c.Context(), a); err != nil {
		return err
	}
	fmt.Fprintf(c.ErrOrStderr(), "the agent runs as the service %s, on %s\n", service.Name, f.listen)
	if hint := firewallHint(); hint != "" {
		fmt.Fprintf(c.ErrOrStderr(), "  firewall: %s\n", hint)
	}
	return nil
}
