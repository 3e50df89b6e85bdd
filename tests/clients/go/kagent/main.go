// kagent's sandbox provider as its contract has it: a claim for each session, made in
// v1alpha1 and read through controller-runtime's cache every 250 ms, together with the
// Sandbox of the claim's own name, whose service makes the MCP URL.
//
//	kagent KUBECONFIG NAMESPACE TEMPLATE
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	agents "sigs.k8s.io/agent-sandbox/api/v1alpha1"
	extensions "sigs.k8s.io/agent-sandbox/extensions/api/v1alpha1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

const (
	sessionLabel = "kagent.dev/session-id"
	pollEvery    = 250 * time.Millisecond
	createWithin = 5 * time.Minute
	sessions     = 8
)

// What ends a wait at once.
var terminal = map[string]bool{
	"TemplateNotFound": true, "ReconcilerError": true,
	"SandboxExpired": true, "ClaimExpired": true,
}

type endpoint struct {
	url   string
	ready bool
	polls int
}

type provider struct{ client client.Client }

func claimName(session string) string {
	name := "kagent-" + session
	return name[:min(len(name), 63)]
}

func (p provider) getOrCreate(ctx context.Context, session, namespace, template string) (endpoint, error) {
	ctx, cancel := context.WithTimeout(ctx, createWithin)
	defer cancel()
	claim := &extensions.SandboxClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name: claimName(session), Namespace: namespace,
			Labels: map[string]string{sessionLabel: session},
			Annotations: map[string]string{
				"kagent.dev/agent-name": "agent", sessionLabel: session},
		},
		Spec: extensions.SandboxClaimSpec{
			TemplateRef: extensions.SandboxTemplateRef{Name: template}},
	}
	err := p.client.Create(ctx, claim)
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return endpoint{}, err
	}
	for polls := 1; ; polls++ {
		found, err := p.look(ctx, client.ObjectKeyFromObject(claim))
		if err != nil || found.ready {
			found.polls = polls
			return found, err
		}
		select {
		case <-ctx.Done():
			return endpoint{}, ctx.Err()
		case <-time.After(pollEvery):
		}
	}
}

// One poll. What the cache has not heard of yet is not ready.
func (p provider) look(ctx context.Context, key client.ObjectKey) (endpoint, error) {
	var claim extensions.SandboxClaim
	var sandbox agents.Sandbox
	if err := p.client.Get(ctx, key, &claim); err != nil {
		return endpoint{}, client.IgnoreNotFound(err)
	}
	ready := meta.FindStatusCondition(claim.Status.Conditions, "Ready")
	if ready == nil || ready.Status != metav1.ConditionTrue {
		if ready != nil && terminal[ready.Reason] {
			return endpoint{}, errors.New(ready.Reason + ": " + ready.Message)
		}
		return endpoint{}, nil
	}
	if err := p.client.Get(ctx, key, &sandbox); err != nil {
		return endpoint{}, client.IgnoreNotFound(err)
	}
	if sandbox.Status.ServiceFQDN == "" {
		return endpoint{}, nil
	}
	return endpoint{url: "http://" + sandbox.Status.ServiceFQDN + ":8080/mcp", ready: true}, nil
}

func (p provider) claims(ctx context.Context, session string) ([]extensions.SandboxClaim, error) {
	var list extensions.SandboxClaimList
	err := p.client.List(ctx, &list, client.MatchingLabels{sessionLabel: session})
	return list.Items, err
}

// Nothing, when the session has no sandbox.
func (p provider) get(ctx context.Context, session string) (*endpoint, error) {
	items, err := p.claims(ctx, session)
	if err != nil || len(items) == 0 {
		return nil, err
	}
	found, err := p.look(ctx, client.ObjectKeyFromObject(&items[0]))
	return &found, err
}

func (p provider) destroy(ctx context.Context, session string) error {
	items, err := p.claims(ctx, session)
	for i := range items {
		err = errors.Join(err, client.IgnoreNotFound(p.client.Delete(ctx, &items[i])))
	}
	return err
}

func check(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func expect(holds bool, words ...any) {
	if !holds {
		fmt.Println(words...)
		os.Exit(1)
	}
}

func connect(ctx context.Context, kubeconfig string) provider {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	check(err)
	scheme := runtime.NewScheme()
	check(agents.AddToScheme(scheme))
	check(extensions.AddToScheme(scheme))
	cached, err := cluster.New(config, func(o *cluster.Options) { o.Scheme = scheme })
	check(err)
	go func() { check(cached.Start(ctx)) }()
	expect(cached.GetCache().WaitForCacheSync(ctx), "no cache")
	return provider{cached.GetClient()}
}

// The whole life of some sessions at once.
func (p provider) sessions(ctx context.Context, namespace, template string) {
	var group sync.WaitGroup
	found := make([]endpoint, sessions)
	began := time.Now()
	for i := range found {
		group.Add(1)
		go func() {
			defer group.Done()
			var err error
			found[i], err = p.getOrCreate(ctx, fmt.Sprint("s", i), namespace, template)
			check(err)
		}()
	}
	group.Wait()
	polls, urls := 0, map[string]bool{}
	for _, one := range found {
		polls = max(polls, one.polls)
		urls[one.url] = true
		expect(strings.HasSuffix(one.url, "."+namespace+".svc.cluster.local:8080/mcp"), one.url)
	}
	expect(len(urls) == sessions, urls)
	fmt.Printf("%d sessions: %d ms, %d polls at most\n", sessions,
		time.Since(began).Milliseconds(), polls)
}

func main() {
	ctx := ctrl.SetupSignalHandler()
	ctrl.SetLogger(zap.New(zap.WriteTo(os.Stderr)))
	namespace, template := os.Args[2], os.Args[3]
	p := connect(ctx, os.Args[1])

	none, err := p.get(ctx, "s0")
	check(err)
	expect(none == nil, "a sandbox of nobody's", none)
	p.sessions(ctx, namespace, template)
	first, err := p.get(ctx, "s0")
	check(err)
	again, err := p.getOrCreate(ctx, "s0", namespace, template)
	check(err)
	expect(first.ready && again.url == first.url && again.polls == 1, first, again)

	began := time.Now()
	_, err = p.getOrCreate(ctx, "missing", namespace, "no-such-template")
	expect(err != nil && strings.HasPrefix(err.Error(), "TemplateNotFound"), err)
	expect(time.Since(began) < createWithin/10, "told after", time.Since(began))

	for i := range sessions {
		check(p.destroy(ctx, fmt.Sprint("s", i)))
	}
	check(p.destroy(ctx, "missing"))
	for {
		gone, err := p.get(ctx, "s0")
		check(err)
		if gone == nil {
			break
		}
		time.Sleep(pollEvery / 10)
	}
	check(p.destroy(ctx, "s0"))
	fmt.Println("done")
}
