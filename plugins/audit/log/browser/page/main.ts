// The page of an evidence file: shows its records, and checks them with the keys that the reader enters. It sends nothing.

import { hexOf, sha256, textBytes, utf8Text } from '../bytes.js'
import type { CheckResult } from '../check-result.js'
import { type CheckedProof, checkTlogProof } from '../check-tlog-proof.js'
import { type GivenKeys, readGivenKeys } from '../given-keys.js'
import { element, part, untrusted, withoutHidden } from './dom.js'
import { readEvidence, type ShownEvidence, type ShownProof } from './evidence.js'
import { memberOf, sentenceOf } from './sentence.js'

const ROWS = 100
const WORDS = { ok: 'proven', failed: 'NOT PROVEN', unchecked: 'not checked' } as const
type State = keyof typeof WORDS

interface Row {
  readonly shown: ShownProof
  readonly item: HTMLElement
  readonly mark: HTMLElement
  readonly details: HTMLDetailsElement
}

class EvidencePage {
  #evidence: ShownEvidence
  #rows: Row[] = []
  #checked = new Map<ShownProof, CheckedProof | undefined>()
  /** Texts of definitions whose record is proven, by their hash. */
  #definitions = new Map<string, string>()
  #round = 0

  constructor(evidence: ShownEvidence) {
    this.#evidence = evidence
    this.#showSummary()
    this.#showRows()
    part('more').addEventListener('click', () => this.#showRows())
    part('form').addEventListener('submit', (event) => {
      event.preventDefault()
      void this.#check((part('keys') as HTMLTextAreaElement).value)
    })
  }

  #showSummary(): void {
    const { records, filter, madeAt, madeBy, notSealed, beyondLimit } = this.#evidence
    const times = records
      .map(({ proof }) => memberOf(proof?.record, 'ts'))
      .filter((ts) => typeof ts === 'string')
    times.sort()
    const heads = new Map(
      records.flatMap(({ proof }) =>
        proof === undefined ? [] : [[proof.checkpoint.text, proof.checkpoint] as const],
      ),
    )
    const chosen = filter.map(([name, value]) =>
      element('li', {}, `${withoutHidden(name)} = `, untrusted(value)),
    )
    const row = (name: string, ...value: (Node | string)[]) =>
      element('tr', {}, element('th', { scope: 'row' }, name), element('td', {}, ...value))
    part('summary').append(
      row('records', String(records.length)),
      row('from', untrusted(times[0] ?? 'none')),
      row('to', untrusted(times.at(-1) ?? 'none')),
      row('selected by', chosen.length === 0 ? 'nothing: every record' : element('ul', {}, ...chosen)),
      row(
        'not in this file',
        `${count(beyondLimit)} beyond its limit, ${count(notSealed)} not sealed when it was made`,
      ),
      row('made', untrusted(madeAt), ' by ', untrusted(madeBy)),
    )
    for (const { origin, size, root, signatures } of heads.values()) {
      const witnesses = signatures.flatMap(({ name }) => (name === origin ? [] : [name]))
      part('summary').append(
        row('log', untrusted(origin)),
        row('its checkpoint', `${size} leaves, root `, element('code', {}, hexOf(root))),
        row(
          'cosigned by',
          ...(witnesses.length === 0 ? ['nobody'] : witnesses.flatMap((name) => [untrusted(name), ' '])),
        ),
      )
    }
  }

  #showRows(): void {
    const { records } = this.#evidence
    for (const shown of records.slice(this.#rows.length, this.#rows.length + ROWS)) {
      const mark = element('b', { class: 'mark' }, WORDS.unchecked)
      const summary = element('summary', {}, mark, ' ', ...sentenceOf(shown.proof?.record))
      const details = element('details', {}, summary)
      const item = element('li', { class: 'unchecked' }, details)
      const row = { shown, item, mark, details }
      details.addEventListener('toggle', () => this.#fill(row))
      this.#rows.push(row)
      this.#mark(row)
      part('records').append(item)
    }
    const left = records.length - this.#rows.length
    part('more').hidden = left === 0
    part('more').textContent = `Show more (${left} left)`
  }

  async #check(text: string): Promise<void> {
    const round = ++this.#round
    const keys = await readGivenKeys(text)
    this.#checked.clear()
    this.#definitions.clear()
    if (keys.wrongLines.length > 0) {
      return this.#say('unchecked', `Not checked: line ${keys.wrongLines.join(', ')} is not a public key.`)
    }
    if (keys.logs.length === 0) return this.#say('unchecked', 'Not checked: enter a public key of the log.')
    const { records, definitions } = this.#evidence
    for (const shown of definitions) await this.#checkDefinition(shown, keys)
    for (const [at, shown] of records.entries()) {
      const checked = shown.proof && (await checkTlogProof(shown.proof, keys))
      // The reader has entered other keys in the meantime.
      if (round !== this.#round) return
      this.#checked.set(shown, checked)
      if (at % ROWS === 0) this.#say('unchecked', `Checking: ${at} of ${records.length}`)
    }
    for (const row of this.#rows) this.#mark(row)
    this.#conclude(keys)
  }

  async #checkDefinition(shown: ShownProof, keys: GivenKeys): Promise<void> {
    const checked = shown.proof && (await checkTlogProof(shown.proof, keys))
    const event = memberOf(shown.proof?.record, 'event')
    const [text, sha] = [memberOf(event, 'text'), memberOf(event, 'sha256')]
    const fits = typeof text === 'string' && sha === hexOf(await sha256(textBytes(text)))
    const state = fits ? (checked?.state ?? 'failed') : 'failed'
    if (fits && state === 'ok') this.#definitions.set(String(sha), text)
    this.#checked.set(shown, state === 'failed' ? undefined : checked)
  }

  #conclude(keys: GivenKeys): void {
    const { records, definitions } = this.#evidence
    const all = [...records, ...definitions].map((shown) => this.#stateOf(shown))
    const failures = all.filter((state) => state === 'failed').length
    const open = all.filter((state) => state === 'unchecked').length
    const by = keys.logs.map(({ id }) => id).join(', ')
    if (records.length === 0) this.#say('unchecked', 'This file has no records.')
    else if (failures > 0) this.#say('failed', `${failures} of ${all.length} records are NOT PROVEN.`)
    else if (open > 0)
      this.#say('unchecked', `${open} of ${all.length} records could not be checked; each says why.`)
    else this.#say('ok', `All ${records.length} records are proven: signed and sealed by ${by}.`)
  }

  #stateOf(shown: ShownProof): State {
    if (!this.#checked.has(shown)) return 'unchecked'
    return this.#checked.get(shown)?.state ?? 'failed'
  }

  #say(state: State, text: string): void {
    const verdict = part('verdict')
    verdict.className = state
    verdict.textContent = text
    if (this.#checked.size === 0) for (const row of this.#rows) this.#mark(row)
  }

  #mark(row: Row): void {
    const state = this.#stateOf(row.shown)
    row.item.className = state
    row.mark.textContent = WORDS[state]
    this.#fill(row)
  }

  /** The checks and the record itself, if the reader opened the row. */
  #fill({ shown, details }: Row): void {
    for (const old of [...details.children].slice(1)) old.remove()
    if (!details.open) return
    const { proof } = shown
    if (proof === undefined) {
      details.append(
        element('p', {}, 'This is not a proof of a record.'),
        element('pre', { tabindex: '0' }, withoutHidden(shown.text)),
      )
      return
    }
    const list = element('ul', {})
    for (const [name, result] of checksOf(this.#checked.get(shown))) list.append(checkItem(name, result))
    details.append(list, ...this.#named(proof.record))
    details.append(element('h3', {}, 'The record as the log has it'))
    details.append(element('pre', { tabindex: '0' }, withoutHidden(utf8Text(proof.line) ?? 'not UTF-8')))
  }

  #named(record: unknown): Node[] {
    const [definition, policy] = [memberOf(record, 'definition_sha256'), memberOf(record, 'policy_sha256')]
    const nodes: Node[] = []
    if (typeof policy === 'string')
      nodes.push(element('p', {}, 'Judged by the policy ', untrusted(policy), '.'))
    if (typeof definition !== 'string') return nodes
    const text = this.#definitions.get(definition)
    const where = text === undefined ? ', which is not in this file, or not proven yet.' : ':'
    nodes.push(element('p', {}, 'The caller was last served the definition ', untrusted(definition), where))
    if (text !== undefined) nodes.push(element('pre', { tabindex: '0' }, withoutHidden(text)))
    return nodes
  }
}

function checksOf(checked: CheckedProof | undefined): [string, CheckResult][] {
  if (checked === undefined) return [['Record', { state: 'unchecked', reason: 'no key was entered' }]]
  return [
    ['Signature', checked.signature],
    ['Place in the log', checked.inclusion],
    ['Checkpoint', checked.checkpoint],
    ...checked.cosignatures.map(({ witness, result }): [string, CheckResult] => [
      `Witness ${withoutHidden(witness)}`,
      result,
    ]),
  ]
}

function checkItem(name: string, result: CheckResult): HTMLElement {
  const text = result.state === 'ok' ? result.detail : result.reason
  const words = { ok: 'correct', failed: 'WRONG', unchecked: 'not checked' }
  const item = element(
    'li',
    { class: result.state },
    element('b', {}, `${name}: ${words[result.state]}`),
    ` — ${text}`,
  )
  if (result.state !== 'failed') return item
  for (const side of ['expected', 'found'] as const) {
    if (result[side] !== undefined) item.append(element('div', {}, `${side}: `, untrusted(result[side])))
  }
  return item
}

function count(value: unknown): string {
  return typeof value === 'number' ? String(value) : '?'
}

try {
  new EvidencePage(readEvidence(part('evidence').textContent ?? ''))
} catch (error) {
  part('verdict').className = 'failed'
  part('verdict').textContent =
    `This file cannot be read: ${error instanceof Error ? error.message : 'an error'}`
}
