// `${env:NAME}` in a policy's strings. What the environment holds may be secret: it goes into the
// configuration and into no message.

const reference = /\$\{env:([^}]*)\}/g
const validName = /^[A-Za-z_][A-Za-z0-9_]*$/

export interface Substituted {
  readonly value: string
  /** As it stands in the policy. */
  readonly template: string
  /** What was put in, to be kept out of messages. */
  readonly secrets: readonly Secret[]
  /** What is wrong with the references; the value is of no use then. */
  readonly faults: readonly string[]
}

export interface Secret {
  readonly value: string
  readonly reference: string
}

/** Undefined when the text has no reference. */
export function substitute(
  template: string,
  env: Readonly<Record<string, string | undefined>>,
): Substituted | undefined {
  if (!template.includes('${env:')) return undefined
  const secrets: Secret[] = []
  const faults: string[] = []
  const value = template.replace(reference, (written: string, name: string) => {
    if (!validName.test(name)) {
      faults.push(`${written} names no environment variable; accepted is \${env:NAME}`)
      return written
    }
    const held = Object.hasOwn(env, name) ? env[name] : undefined
    if (held === undefined) {
      faults.push(`the environment variable ${name} is not set; set it, or write the value here`)
      return written
    }
    secrets.push({ value: held, reference: written })
    return held
  })
  if (secrets.length > 0 && value !== secrets[0]?.value) secrets.push({ value, reference: template })
  return { value, template, secrets, faults }
}

/** The message with what came from the environment put back as its reference. */
export function withoutSecrets(message: string, secrets: readonly Secret[]): string {
  let told = message
  for (const { value, reference } of [...secrets].sort((a, b) => b.value.length - a.value.length)) {
    for (const form of new Set([value, JSON.stringify(value).slice(1, -1)])) {
      if (form === '') continue
      // As a whole word, so that a port of 8 does not blot out the digit in "at most 8000".
      const before = /^\w/.test(form) ? '(?<!\\w)' : ''
      const after = /\w$/.test(form) ? '(?!\\w)' : ''
      const escaped = form.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
      told = told.replace(new RegExp(before + escaped + after, 'g'), () => reference)
    }
  }
  return told
}
