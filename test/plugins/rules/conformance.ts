// A section as an author would write it, for the conformance suite.
import type { ConformanceOptions } from 'svc-sdk/testing'

export const options: ConformanceOptions = {
  validConfig: [
    {
      name: 'large-refunds',
      tools: ['billing/refund_payment'],
      require: "args.amount <= 100 || 'finance' in caller.roles",
      then: 'deny',
      message: 'Refunds above the limit need the finance role.',
      keep: ['args.amount'],
    },
    { name: 'at-night', when: 'call.time.getHours("Europe/Berlin") < 6', then: 'report' },
  ],
}
