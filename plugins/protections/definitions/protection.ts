// Definitions that are known: what servers say of themselves to models is pinned, and a change is withheld.
import {
  bindDefault,
  definitionFilter,
  hostOf,
  identity,
  owned,
  policyTokens,
  servedDefinition,
  services,
} from '@svc/core'
import { defineProtection } from '../shared/protection.js'
import { type DefinitionsSettings, definitionsConfig, definitionsSchema } from './config.js'
import { type LockedDefinitions, LockFileError, nothingLocked, readLockFile } from './lock-file.js'
import { definitionReviews } from './reviews.js'
import { DefinitionsStage } from './stage.js'

interface Section {
  readonly definitions?: DefinitionsSettings | undefined
}

/** The schemas of the tools in the lock file, for the types of conditions. A file with a mistake is reported by the check. */
const toolSchemas = owned(policyTokens.toolSchemas, ({ definitions }: Section, bindings) => {
  const { baseDir } = hostOf(bindings).place ?? {}
  if (definitions?.lock === undefined || definitions.effect === 'off' || baseDir === undefined)
    return undefined
  const locked = lockFileOr(definitions.lock, baseDir)
  return locked instanceof LockFileError ? undefined : (pattern) => locked.schemaOf(pattern)
})

/** @throws {LockFileError} */
const lockedTools = owned(services.lockedTools, ({ definitions: { lock } = {} }: Section) =>
  lock === undefined ? undefined : (baseDir) => readLockFile(lock, baseDir).tools,
)

function lockFileOr(lock: string, baseDir: string): LockedDefinitions | LockFileError {
  try {
    return readLockFile(lock, baseDir)
  } catch (error) {
    if (error instanceof LockFileError) return error
    throw error
  }
}

export const definitionsProtection = defineProtection({
  schema: definitionsSchema,
  owns: [toolSchemas, lockedTools],
  reasons: ['tool_definition_unknown', 'tool_definition_over_limit'],
  uses: [identity],
  provides: [definitionFilter, servedDefinition],
  metrics: {
    svc_definitions_changed_total: {
      kind: 'counter',
      help: 'Definitions of servers that differ from the pinned ones; each content counts once.',
    },
    svc_definitions_withheld_total: { kind: 'counter', help: 'Definitions withheld from lists.' },
    svc_definitions_over_limit_total: {
      kind: 'counter',
      help: 'Definitions that are too large, or beyond the number of new ones per day.',
    },
  },
  configure(settings, preset) {
    const config = definitionsConfig(settings, preset)
    if (config === undefined) return undefined
    return {
      check(bindings) {
        const { baseDir } = hostOf(bindings).place ?? {}
        if (config.lock === undefined || baseDir === undefined) return []
        const locked = lockFileOr(config.lock, baseDir)
        if (!(locked instanceof LockFileError)) return []
        return [{ path: ['protections', 'definitions', 'lock'], message: locked.message }]
      },
      create(context) {
        const locked = config.lock === undefined ? nothingLocked : readLockFile(config.lock, context.baseDir)
        const stage = new DefinitionsStage(config, locked, context)
        bindDefault(context.container, definitionReviews, { useCurrent: () => stage.reviews })
        return stage
      },
    }
  },
})
