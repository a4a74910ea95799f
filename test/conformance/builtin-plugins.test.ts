// The conformance suite over every plugin that ships.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { generateKeyFile } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { builtinPlugins, defaultOrder } from 'svc-sdk/internal/plugins'
import { type ConformanceOptions, conformance } from 'svc-sdk/testing'

/** A section as someone would write it, for the plugins that do not run on defaults alone. */
const sections: Readonly<Record<string, ConformanceOptions>> = {
  audit: {
    validConfig: (directory: string) => {
      const key = join(directory, 'key')
      generateKeyFile(key)
      return {
        gatewayName: 'gw',
        gatewayVersion: '1.0.0',
        dir: directory,
        signer: { keyRef: `file://${key}` },
      }
    },
  },
  authn: {
    validConfig: {
      oidc: {
        issuer: 'https://id.example.com/',
        audience: 'gw',
        jwks_uri: 'https://id.example.com/jwks',
      },
    },
  },
  entitlements: {
    validConfig: {
      default_plan: 'free',
      plans: { free: { calls_per_day: 10 } },
      tenants: { acme: { plan: 'free', allowlist: ['billing/*'] } },
    },
  },
  dedupe: { validConfig: { ttlSec: 60 } },
  quotas: { validConfig: { adapter: 'memory' } },
  security: { validConfig: { allow_versions: { billing: ['1.*'] }, limits: { max_payload_kb: 1 } } },
  enforcement: { validConfig: { mode: 'enforce' } },
  runtime: {
    validConfig: { enforcement: { mode: 'local', remote: { endpoint: 'https://judge.example.com/' } } },
  },
  privacy: { validConfig: { redact_identities: true } },
  brokers: {
    validConfig: (directory: string) => {
      writeFileSync(join(directory, 'vendor.key'), 'a key of the test')
      return {
        billing: {
          type: 'vendor_key_pool',
          key_refs: ['file://vendor.key'],
          inject: { header: 'x-api-key', format: 'raw' },
        },
      }
    },
  },
}

describe('the plugins that ship', () => {
  it('have names of their own, all of them in the default order', () => {
    const names = builtinPlugins.map(({ name }) => name)
    expect(new Set(names).size).to.equal(names.length)
    expect(names).to.have.members([...defaultOrder])
  })

  it('have a section to be tested with, where they are available', () => {
    const available = builtinPlugins.filter((plugin) => plugin.available !== false)
    expect(available.map(({ name }) => name)).to.have.members(Object.keys(sections))
  })

  for (const plugin of builtinPlugins) {
    describe(plugin.name, () => {
      for (const { title, run } of conformance(plugin, sections[plugin.name] ?? {})) it(title, run)
    })
  }
})
