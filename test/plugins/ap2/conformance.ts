// A section as an author would write it, for the conformance suite.
import { bind, tokens } from '@svc/core'
import { MemoryKeyValueStore } from '@svc/core/store'
import { usedMandateStore } from '@svc/plugin-ap2'
import { dedupeSchema, dedupeStore } from '@svc/plugin-dedupe'
import type { ConformanceOptions } from 'svc-sdk/testing'

export const options: ConformanceOptions = {
  validConfig: {
    requireForSideEffects: true,
    trust: { issuersAllowlist: ['did:web:shop.example'] },
    tools: { allow: ['shop/*'], bind: { 'shop/buy': { total: '/total', currency: { is: 'USD' } } } },
  },
  configure({ container }) {
    bind(container, tokens.DedupeStore, { useValue: new MemoryKeyValueStore() })
    bind(container, usedMandateStore, {
      useValue: (context) => dedupeStore(dedupeSchema.parse({}), context),
    })
  },
}
