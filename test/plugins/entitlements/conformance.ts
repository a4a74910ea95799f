// A section as someone would write it, for the conformance suite.
import type { ConformanceOptions } from 'svc-sdk/testing'

export const options: ConformanceOptions = {
  validConfig: {
    default_plan: 'free',
    plans: { free: { calls_per_day: 10 } },
    tenants: { acme: { plan: 'free', allowlist: ['billing/*'] } },
  },
}
