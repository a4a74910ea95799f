// Schemas of a small gateway to load policies with, and short forms of calls to the loader.
import { definePlugin, type Plugin, slot } from '@svc/core'
import {
  formatDiagnostic,
  type HostResult,
  loadHost,
  loadPolicy,
  type PolicyInput,
  type PolicyResult,
} from '@svc/core/policy'
import { container } from 'tsyringe'
import { z } from 'zod'

const hostSchema = z.strictObject({
  tenant: z.string().min(1),
  port: z.int().min(0).max(65_535).default(0),
  sec0Dir: z.string().default('.svc'),
  plugins: z.array(z.strictObject({ use: z.string(), version: z.string().optional() })).default([]),
  pipeline: z.array(z.string()).optional(),
})

export type Host = z.infer<typeof hostSchema>

const create: Plugin['create'] = () => ({ handle: (_call, next) => next() })
export const who = slot<string>('who')

export function plugin(name: string, schema: z.ZodType, more: Partial<Plugin> = {}): Plugin {
  return definePlugin({ name, version: '1.2.0', core: '^1.0.0', schema, create, ...more })
}

export const audit = plugin(
  'audit',
  z.strictObject({
    dir: z.string().min(1),
    gatewayName: z.string().min(1).optional(),
    retentionDays: z.int().min(1).default(30),
    fsync: z.boolean().default(true),
    append: z.custom((value) => typeof value === 'function').optional(),
  }),
  { phase: 'record' },
)

export const authn = plugin(
  'authn',
  z
    .strictObject({
      allowUnauthenticated: z.boolean().default(false),
      oidc: z
        .strictObject({ issuer: z.url(), jwks_uri: z.url(), tenantClaim: z.string().default('org') })
        .optional(),
    })
    .prefault({}),
  {
    phase: 'authentication',
    provides: [who],
    check: ({ oidc }) =>
      oidc === undefined
        ? [
            {
              path: ['authn'],
              message: 'callers cannot be distinguished; set authn.oidc',
              severity: 'warning',
            },
          ]
        : [],
  },
)

export const limits = plugin(
  'limits',
  z.strictObject({
    per_tool: z.record(z.string(), z.strictObject({ calls_per_day: z.int().min(0) })).optional(),
    mode: z.enum(['observe', 'enforce']).optional(),
    adapter: z.union([z.enum(['memory', 'lmdb']), z.custom((value) => typeof value === 'object')]).optional(),
  }),
  { phase: 'metering', uses: [who] },
)

export const defaults = [audit, authn, limits]

type Options = Partial<Omit<PolicyInput<Host>, 'layers'>>

export function load(text: string, options: Options = {}): PolicyResult<Host> {
  return loadLayers([{ file: 'p.yaml', text }], options)
}

export function loadLayers(layers: PolicyInput<Host>['layers'], options: Options = {}): PolicyResult<Host> {
  return loadPolicy(inputOf(layers, options))
}

/** The result before the modules of the policy are imported. */
export function loadHostOf(text: string, options: Options = {}): HostResult<Host> {
  return loadHost(inputOf([{ file: 'p.yaml', text }], options))
}

function inputOf(layers: PolicyInput<Host>['layers'], options: Options): PolicyInput<Host> {
  return {
    host: hostSchema,
    plugins: defaults,
    required: (options.plugins ?? defaults).includes(audit) ? ['audit'] : [],
    env: {},
    layers,
    bindings: container.createChildContainer(),
    ...options,
  }
}

/** The mistakes as they are printed; empty when the policy loads. */
export function mistakesIn(text: string, options: Options = {}): string[] {
  return printed(load(text, options))
}

export function printed(result: PolicyResult<Host> | HostResult<Host>): string[] {
  return result.ok ? [] : result.mistakes.map(formatDiagnostic)
}

export function accepted(result: PolicyResult<Host>) {
  if (!result.ok) throw new Error(printed(result).join('\n'))
  return result.policy
}
