// Substitutes `${env:NAME}` in a policy's strings. Values of the environment may be secret, so no message contains
// them.

const reference = /\$\{env:([^}]*)\}/g
const validName = /^[A-Za-z_][A-Za-z0-9_]*$/

interface Substituted {
  readonly value: string
  /** The value as written in the policy. */
  readonly template: string
  /** The substituted values, to be removed from messages. */
  readonly secrets: readonly Secret[]
  /** Invalid references; with any, the value must not be used. */
  readonly errors: readonly string[]
}

export interface Secret {
  readonly value: string
  readonly reference: string
}

/** Undefined if the text has no reference, or if texts are taken as they are (`none`). */
export function substitute(
  template: string,
  env: Readonly<Record<string, string | undefined>> | 'none',
): Substituted | undefined {
  if (env === 'none' || !template.includes('${env:')) return undefined
  const secrets: Secret[] = []
  const errors: string[] = []
  const value = template.replace(reference, (written: string, name: string) => {
    if (!validName.test(name)) {
      errors.push(`${written} names no environment variable; accepted is \${env:NAME}`)
      return written
    }
    const found = Object.hasOwn(env, name) ? env[name] : undefined
    if (found === undefined) {
      errors.push(`the environment variable ${name} is not set; set it, or write the value here`)
      return written
    }
    secrets.push({ value: found, reference: written })
    return found
  })
  if (secrets.length > 0 && value !== secrets[0]?.value) secrets.push({ value, reference: template })
  return { value, template, secrets, errors }
}

/** The message with each value from the environment replaced by its reference. */
export function withoutSecrets(message: string, secrets: readonly Secret[]): string {
  let redacted = message
  for (const { value, reference } of [...secrets].sort((a, b) => b.value.length - a.value.length)) {
    for (const form of new Set([value, JSON.stringify(value).slice(1, -1)])) {
      if (form === '') continue
      // Only whole words are replaced, so that the value 8 does not replace a digit of "at most 8000".
      const before = /^\w/.test(form) ? '(?<!\\w)' : ''
      const after = /\w$/.test(form) ? '(?!\\w)' : ''
      const escaped = form.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
      redacted = redacted.replace(new RegExp(before + escaped + after, 'g'), () => reference)
    }
  }
  return redacted
}
