//go:build !operator

package main

import (
	"math/rand"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

type key struct{ namespace, name string }

// Distinct keys in a hundred namespaces; the name of a key is its number.
func keys(count int) []key {
	namespaces := make([]string, 100)
	for i := range namespaces {
		namespaces[i] = "namespace-" + strconv.Itoa(i)
	}
	made := make([]key, count)
	for i := range made {
		made[i] = key{namespaces[i%100], strconv.Itoa(i)}
	}
	return made
}

// Repeats a thousand keys.
func repeated(count int) []key {
	distinct := keys(1000)
	made := make([]key, count)
	for i := range made {
		made[i] = distinct[i%1000]
	}
	return made
}

type queue interface {
	Add(key)
	Get() (key, bool)
	Done(key)
	ShutDown()
}

type delaying interface {
	queue
	AddAfter(key, time.Duration)
}

func newQueue(variant string) queue {
	if variant == "priority" {
		return newPriority()
	}
	return workqueue.NewTyped[key]()
}

func newDelaying(variant string) delaying {
	if variant == "priority" {
		return newPriority()
	}
	return workqueue.NewTypedDelayingQueue[key]()
}

func newPriority() priorityqueue.PriorityQueue[key] {
	return priorityqueue.New("", func(o *priorityqueue.Opts[key]) {
		o.MetricProvider = noMetrics{}
		o.Log = logr.Discard()
	})
}

var queueWorkloads = map[string]func(variant string, count int) figures{
	"queue.one_at_a_time": func(variant string, count int) figures {
		q, ks := newQueue(variant), repeated(count)
		defer q.ShutDown()
		return timed(count, func() {
			for _, k := range ks {
				q.Add(k)
				k, _ := q.Get()
				q.Done(k)
			}
		})
	},
	"queue.fill_then_drain": func(variant string, count int) figures {
		q, ks := newQueue(variant), keys(count)
		defer q.ShutDown()
		return timed(count, func() {
			for _, k := range ks {
				q.Add(k)
			}
			for range ks {
				k, _ := q.Get()
				q.Done(k)
			}
		})
	},
	"queue.duplicates": func(variant string, count int) figures {
		q, ks := newQueue(variant), repeated(count)
		defer q.ShutDown()
		for _, k := range ks[:1000] {
			q.Add(k)
		}
		return timed(count, func() {
			for _, k := range ks {
				q.Add(k)
			}
		})
	},
	"queue.eight_by_eight": eightByEight,
	"queue.add_after": func(variant string, count int) figures {
		q, ks, random := newDelaying(variant), keys(count), rand.New(rand.NewSource(1))
		defer q.ShutDown()
		return timed(count, func() {
			for _, k := range ks {
				q.AddAfter(k, time.Hour+time.Duration(random.Int63n(int64(time.Hour))))
			}
		})
	},
	"queue.limiter_when": func(_ string, count int) figures {
		limiter, ks := workqueue.DefaultTypedControllerRateLimiter[key](), repeated(count)
		return timed(count, func() {
			for _, k := range ks {
				limiter.When(k)
			}
		})
	},
	"queue.lateness": lateness,
	"queue.heap": func(variant string, count int) figures {
		ks := keys(count)
		ready := heapOf(newQueue(variant), ks, func(q queue, k key) { q.Add(k) })
		delayed := heapOf(newDelaying(variant), ks, func(q queue, k key) { q.(delaying).AddAfter(k, time.Hour) })
		return figures{"ready_b": ready, "delayed_b": delayed}
	},
}

// Runs eight goroutines that add and eight that get and finish keys, until all keys are finished. Keys are counted, because the
// priority queue returns no more keys after its shutdown.
func eightByEight(variant string, count int) figures {
	q := newQueue(variant)
	defer q.ShutDown()
	shares := make([][]key, 8)
	for i, k := range keys(count) {
		shares[i%8] = append(shares[i%8], k)
	}
	return timed(count, func() {
		var all sync.WaitGroup
		all.Add(count)
		for range shares {
			go func() {
				for {
					k, ended := q.Get()
					if ended {
						return
					}
					q.Done(k)
					all.Done()
				}
			}()
		}
		for _, share := range shares {
			go func() {
				for _, k := range share {
					q.Add(k)
				}
			}()
		}
		all.Wait()
	})
}

// Measures how late keys with delays between 0.1 s and 1.1 s are returned.
func lateness(variant string, count int) figures {
	q, ks, random := newDelaying(variant), keys(count), rand.New(rand.NewSource(1))
	defer q.ShutDown()
	due := make([]time.Time, count)
	for i, k := range ks {
		delay := time.Duration(100_000+random.Int63n(1_000_000)) * time.Microsecond
		due[i] = time.Now().Add(delay)
		q.AddAfter(k, delay)
	}
	var late []time.Duration
	for len(late) < count {
		k, _ := q.Get()
		if i, err := strconv.Atoi(k.name); err == nil {
			late = append(late, time.Since(due[i]))
		}
		q.Done(k)
	}
	slices.Sort(late)
	at := func(share int) float64 { return late[(count-1)*share/100].Seconds() * 1e6 }
	return figures{"p50_us": at(50), "p99_us": at(99)}
}

// Measures live bytes per key after collections. The queue's goroutines have two seconds to sort buffered keys.
func heapOf(q queue, ks []key, add func(queue, key)) float64 {
	before := live()
	for _, k := range ks {
		add(q, k)
	}
	time.Sleep(2 * time.Second)
	used := live() - before
	runtime.KeepAlive(ks)
	q.ShutDown()
	return float64(used) / float64(len(ks))
}

func live() uint64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// Measures wall-clock and CPU nanoseconds per key, including garbage collection in the meantime.
func timed(count int, work func()) figures {
	runtime.GC()
	before, start := cpu(), time.Now()
	work()
	wall, used := time.Since(start), cpu()-before
	per := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / float64(count) }
	return figures{"wall_ns": per(wall), "cpu_ns": per(used)}
}

// Discards metrics, as in all contenders.
type noMetrics struct{}

type nop struct{}

func (nop) Inc()            {}
func (nop) Dec()            {}
func (nop) Set(float64)     {}
func (nop) Observe(float64) {}

func (noMetrics) NewDepthMetric(string) workqueue.GaugeMetric       { return nop{} }
func (noMetrics) NewAddsMetric(string) workqueue.CounterMetric      { return nop{} }
func (noMetrics) NewLatencyMetric(string) workqueue.HistogramMetric { return nop{} }
func (noMetrics) NewWorkDurationMetric(string) workqueue.HistogramMetric {
	return nop{}
}
func (noMetrics) NewUnfinishedWorkSecondsMetric(string) workqueue.SettableGaugeMetric {
	return nop{}
}
func (noMetrics) NewLongestRunningProcessorSecondsMetric(string) workqueue.SettableGaugeMetric {
	return nop{}
}
func (noMetrics) NewRetriesMetric(string) workqueue.CounterMetric { return nop{} }
