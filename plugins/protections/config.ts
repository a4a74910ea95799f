// The `protections` section: the preset, and a key for each protection that is built in.
import type { ConfigConflict } from '@svc/core'
import { z } from 'zod'
import { definitionsProtection } from './definitions/protection.js'
import { flowsProtection } from './flows/protection.js'
import { methodsProtection } from './methods/stage.js'
import { schemaProtection } from './schema/stage.js'
import { serverRequestsProtection } from './server-requests/judge.js'
import type { ConfiguredProtection, Protection, ProtectionPreset } from './shared/protection.js'
import { text } from './text/stage.js'

/** The protections by key, in the order of their stages. */
export const protections: Readonly<Record<string, Protection>> = {
  definitions: definitionsProtection,
  // After the definitions, which tell it the schema.
  schema: schemaProtection,
  server_requests: serverRequestsProtection,
  methods: methodsProtection,
  text,
  // Inside text, so that it sees what text removes.
  flows: flowsProtection,
}

export const protectionsSchema = z
  .strictObject({
    preset: z
      .enum(['observe', 'guard'])
      .optional()
      .describe(
        'What every protection does that its own key does not set: `observe` reports, `guard` protects. Without it only the protections whose keys are given are on.',
      ),
    definitions: definitionsProtection.schema.optional(),
    schema: schemaProtection.schema.optional(),
    server_requests: serverRequestsProtection.schema.optional(),
    methods: methodsProtection.schema.optional(),
    flows: flowsProtection.schema.optional(),
    text: text.schema.optional(),
  })
  .describe('Protections for the use of tools. Without this section none is on.')

export type ProtectionsConfig = z.output<typeof protectionsSchema>

/** The protections that are on. */
export function configuredProtections(config: ProtectionsConfig): readonly ConfiguredProtection[] {
  const { preset, ...settings }: { preset?: ProtectionPreset | undefined; [key: string]: unknown } = config
  return Object.entries(protections).flatMap(([key, one]) => one.configure(settings[key], preset) ?? [])
}

/** Protections that need another one. */
export function conflictsOf({ preset, definitions, schema }: ProtectionsConfig): readonly ConfigConflict[] {
  if (schemaProtection.configure(schema, preset) === undefined) return []
  if (definitionsProtection.configure(definitions, preset) !== undefined) return []
  const message = 'needs definitions, which has the schemas of tools; add definitions: { effect: report }'
  return [{ path: ['protections', 'schema'], message }]
}
