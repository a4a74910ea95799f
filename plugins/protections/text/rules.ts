// The rules on texts, read from rules.yaml when the first policy asks for them.
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { detectPii, knownSecretKinds, type Span } from '@svc/core/pii'
import { parse } from 'yaml'
import { z } from 'zod'
import { obfuscatedCommands, pipedDownloads, surveys } from './commands.js'
import { hiddenDetectors } from './hidden.js'
import { parsePhrase } from './phrases.js'

/** The role of a text for the model: a server's description, the result of a call, or an argument that the model sends. */
const textRoles = ['definition', 'result', 'argument'] as const

export type TextRole = (typeof textRoles)[number]

const detectors: Readonly<Record<string, (text: string) => Span[]>> = {
  ...hiddenDetectors,
  'obfuscated-command': obfuscatedCommands,
  'piped-download': pipedDownloads,
  survey: surveys,
  secret: secrets,
  'personal-data': personalData,
}

/** They need the definitions of other servers; see shadowing.ts. */
const ON_LISTS = ['shadowed-name', 'names-other-tool']
/** See layers.ts. */
const ON_ENCODINGS = 'too-many-encodings'

const classes = [
  'instruction',
  'role',
  'exfiltration',
  'hidden',
  'command',
  'secret',
  'personal',
  'shadowing',
] as const

const roles = z
  .string()
  .transform((names) => names.split(' ').filter((name) => name !== ''))
  .pipe(z.array(z.enum(textRoles)))

const ruleSchema = z.strictObject({
  id: z.string().regex(/^[a-z][a-z-]{2,40}$/),
  class: z.enum(classes),
  in: roles.default(['definition', 'result']),
  certain: roles.optional(),
  words: z.array(z.string().transform(parsePhrase)).default([]),
  contains: z.array(z.string().min(2)).default([]),
  detector: z.enum([...Object.keys(detectors), ...ON_LISTS, ON_ENCODINGS]).optional(),
  for: z.array(z.string()).default([]),
  against: z.array(z.string()).default([]),
  source: z.string(),
})

/** One rule of rules.yaml. */
export interface TextRule extends z.output<typeof ruleSchema> {
  /** The detector in code, for rules that have one and work on a single text. */
  readonly detect?: ((text: string) => Span[]) | undefined
}

let loaded: readonly TextRule[] | undefined

/** All rules, in the order of the file. */
export function textRules(): readonly TextRule[] {
  loaded ??= z
    .array(ruleSchema)
    .parse(parse(readFileSync(rulesFile(), 'utf8')))
    .map((rule) => ({ ...rule, detect: rule.detector === undefined ? undefined : detectors[rule.detector] }))
  return loaded
}

/** By its name, which a bundle finds too. */
function rulesFile(): string {
  return createRequire(import.meta.url).resolve('@svc/plugin-protections/rules.yaml')
}

/** Keys and tokens that are known by their form. A value beside a name such as `password` may be a placeholder. */
function secrets(text: string): Span[] {
  // A user and a password are the only secret that short.
  if (text.length < 13 && !text.includes(':')) return []
  return detectPii(text, knownSecretKinds)
}

/** Data about persons; addresses of mail are not among them, as most calls that need one are harmless. */
function personalData(text: string): Span[] {
  // None is shorter than `123-45-6789`.
  if (text.length < 11 || !/\d/.test(text)) return []
  return detectPii(text, ['payment_card', 'iban', 'us_ssn'])
}
