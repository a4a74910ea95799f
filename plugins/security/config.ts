// Schema of the `security` section.
import { patternsSchema } from '@svc/core/policy'
import { z } from 'zod'
import { HostPatternError, parseHostPattern } from './egress/patterns.js'
import { PathPatternError, parsePathPattern, parseRoot } from './fs/patterns.js'
import { humanEscalationSchema } from './human-escalation.js'
import { parseVersionPattern, VersionPatternError } from './versions.js'

/** The longest delay of a Node.js timer. */
const MAX_DELAY_MS = 2_147_483_647

const allowVersions = z
  .record(z.string().min(1), z.array(z.string().min(1)).describe('Allowed versions, exact or with `*`.'))
  .superRefine((servers, context) => {
    for (const [server, versions] of Object.entries(servers)) {
      addIssues(context, [server], versions, parseVersionPattern)
    }
  })
  .describe('Allowed versions by server name. A server that is not listed is not restricted.')

const egressAllowlist = z
  .array(z.string().min(1))
  .superRefine((hosts, context) => addIssues(context, [], hosts, parseHostPattern))
  .describe(
    'Hosts allowed in arguments: `host`, `*.domain` or `*`, each with optional `scheme://` and `:port`. An empty list allows none.',
  )

const fsAllowlist = z
  .array(z.string().min(1))
  .superRefine((paths, context) => addIssues(context, [], paths, (path) => parsePathPattern(path, undefined)))
  .describe(
    'Paths allowed in arguments. `*` matches within one segment, `**` any number of segments. An empty list allows none.',
  )

const fsRoot = z
  .string()
  .min(1)
  .superRefine((path, context) => addIssues(context, [], [path], parseRoot, true))
  .describe('Absolute base directory of relative paths and patterns.')

const sideEffectsSchema = z
  .strictObject({
    require_idempotency_key: z
      .boolean()
      .optional()
      .describe('Whether a call with side effects and without an idempotency key is a finding.'),
    tools: patternsSchema(z.boolean())
      .optional()
      .describe('Whether the tools that match a pattern have side effects. The most specific pattern wins.'),
    unknown: z
      .enum(['harmless', 'effect'])
      .optional()
      .describe(
        'How a tool counts about which neither `tools`, an annotation nor its name says whether it has side effects: for idempotency keys, AP2 mandates and intents; default `harmless`.',
      ),
    trust_annotations: z
      .boolean()
      .optional()
      .describe(
        'Whether to trust `readOnlyHint` and `destructiveHint` of MCP servers for which of their tools have side effects.',
      ),
    approve_high_risk: z
      .boolean()
      .optional()
      .describe(
        'Whether findings named in `enforcement.escalate_on` are escalated to reviewers instead of denied.',
      ),
    human_escalation: humanEscalationSchema.optional(),
  })
  .describe('Which calls have side effects, and what is required of them.')

type SideEffects = z.input<typeof sideEffectsSchema>

/** Code may spell `human_escalation` as `humanEscalation`, as the policy's reader does. */
const sideEffects: z.ZodType<
  z.output<typeof sideEffectsSchema>,
  SideEffects & { humanEscalation?: SideEffects['human_escalation'] }
> = sideEffectsSchema

export const securitySchema = z
  .strictObject({
    allow_versions: allowVersions.optional(),
    egress_allowlist: egressAllowlist.optional(),
    fs_allowlist: fsAllowlist.optional(),
    fs_root: fsRoot.optional(),
    limits: z
      .strictObject({
        max_payload_kb: z
          .number()
          .positive()
          .optional()
          .describe('Largest request and largest response, in kilobytes of 1024 bytes.'),
        max_duration_ms: z
          .int()
          .min(1)
          .max(MAX_DELAY_MS)
          .optional()
          .describe(
            'Longest duration of a call, from this stage to the last byte of the response, in milliseconds.',
          ),
      })
      .optional()
      .describe('Size and duration limits; exceeding one is a finding.'),
    side_effects: sideEffects.optional(),
  })
  .describe('Rules on the content, size and duration of calls. A violation is a finding.')

export type SecurityConfig = z.infer<typeof securitySchema>

/** Parses each text, and adds an issue at the index of each that is invalid; with `isSingle` at `path` itself. */
function addIssues(
  context: z.core.$RefinementCtx,
  path: readonly string[],
  texts: readonly string[],
  parse: (text: string) => unknown,
  isSingle = false,
): void {
  for (const [i, text] of texts.entries()) {
    try {
      parse(text)
    } catch (error) {
      if (!isPatternError(error)) throw error
      context.addIssue({ code: 'custom', path: isSingle ? [...path] : [...path, i], message: error.message })
    }
  }
}

function isPatternError(error: unknown): error is Error {
  return (
    error instanceof VersionPatternError ||
    error instanceof HostPatternError ||
    error instanceof PathPatternError
  )
}
