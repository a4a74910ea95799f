// The redactor of one call: knows its caller as soon as authn does.
import { type Call, type Identity, identity, type Redactor } from '@svc/core'
import type { Pseudonyms } from './pseudonyms.js'

/** What finds the caller's names in a text. */
interface Forms {
  /** Those that are addresses. */
  readonly addresses: RegExp | undefined
  readonly others: RegExp | undefined
}

/** Callers whom authn remembers come back as the same object. */
const forms = new WeakMap<Identity, Forms>()

export class CallRedactor implements Redactor {
  #call: Call
  #pseudonyms: Pseudonyms

  constructor(call: Call, pseudonyms: Pseudonyms) {
    this.#call = call
    this.#pseudonyms = pseudonyms
  }

  pseudonym(name: string): string {
    return this.#pseudonyms.of(name)
  }

  /** A name that is no address may be a part of somebody's, and would spoil it: such names come last. */
  text(text: string): string {
    const caller = this.#call.get(identity)
    if (caller === undefined) return this.#pseudonyms.inPlaceOfAddresses(text)
    const { addresses, others } = formsFor(caller)
    const told = this.#pseudonyms.inPlaceOfAddresses(this.#without(addresses, text, caller))
    return this.#without(others, told, caller)
  }

  #without(form: RegExp | undefined, text: string, caller: Identity): string {
    if (form === undefined) return text
    return text.replace(form, (found) => this.#pseudonyms.of(asNamed(found, namesOf(caller))))
  }
}

function formsFor(caller: Identity): Forms {
  let made = forms.get(caller)
  if (made === undefined) {
    const names = namesOf(caller)
    made = {
      addresses: formOf(names.filter((name) => name.includes('@'))),
      others: formOf(names.filter((name) => !name.includes('@'))),
    }
    forms.set(caller, made)
  }
  return made
}

/** As the token has it, however it was found. */
function asNamed(found: string, names: readonly string[]): string {
  const told = found.toLowerCase()
  const same = (name: string) => spellings(name).some((one) => one.toLowerCase() === told)
  return names.find(same) ?? found
}

function namesOf({ user, userId, clientId }: Identity): string[] {
  return [user, userId, clientId].filter((name) => name !== undefined)
}

/** Plain, and as a part of a URL. */
function spellings(name: string): string[] {
  const encoded = encodeURIComponent(name.toWellFormed())
  return encoded === name ? [name] : [name, encoded]
}

/**
 * Whole words only: a user called "ad" is not in "read". Longer names first, as one may begin with another; after
 * a percent-encoded character a word begins too.
 */
function formOf(names: readonly string[]): RegExp | undefined {
  if (names.length === 0) return undefined
  const all = names.flatMap(spellings).sort((a, b) => b.length - a.length)
  const escaped = all.map((name) => name.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&'))
  const begin = '(?:(?<![\\p{L}\\p{N}_])|(?<=%[0-9A-Fa-f]{2}))'
  return new RegExp(`${begin}(?:${escaped.join('|')})(?![\\p{L}\\p{N}_])`, 'giu')
}
