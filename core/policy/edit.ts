// Edits of a policy's text that keep its comments and order.
import { isAlias, isMap, isScalar, isSeq, parseDocument, visit, type YAMLMap } from 'yaml'
import type { ItemEdit, PolicyEdit } from '../plugin/narrowing.js'
import { spellingsOf } from './spelling.js'

type Path = PolicyEdit['path']

/** The text of a policy that has been loaded without a mistake. */
export class PolicyText {
  readonly #document: ReturnType<typeof parseDocument>

  constructor(text: string) {
    this.#document = parseDocument(text)
  }

  /** Throws if the text has something else at the path, or the same text stands at another place too. */
  edit(edit: PolicyEdit): void {
    if ('items' in edit) this.#editList(edit.path, edit.items)
    else this.#set(edit.path, edit.value)
  }

  toString(): string {
    return this.#document.toString({ lineWidth: 0 })
  }

  #editList(path: Path, edits: ReadonlyMap<number, ItemEdit>): void {
    const list = this.#nodeAt(path)
    if (!isSeq(list)) throw new Error(`${path.join('.')} is not a list in the text`)
    let comments: string[] = []
    const items: unknown[] = []
    for (const [index, item] of [...list.items].entries()) {
      const edit = edits.get(index)
      if (edit === undefined) {
        items.push(commented(item, comments))
        comments = []
        continue
      }
      const { commentBefore, comment: after } = isScalar(item) ? item : {}
      if (commentBefore) comments.push(commentBefore)
      const said = [edit.comment, after?.trim()].filter((text) => text !== undefined && text !== '')
      if (said.length > 0) comments.push(` ${said.join('; ')}`)
      for (const text of edit.by) {
        items.push(commented(this.#document.createNode(text), comments))
        comments = []
      }
    }
    list.items = items as typeof list.items
    list.flow = items.length === 0
    if (comments.length > 0) list.comment = [...(list.comment ? [list.comment] : []), ...comments].join('\n')
  }

  /** The outermost missing key is added. */
  #set(path: Path, value: unknown): void {
    let at = 0
    let node: unknown = this.#document.contents
    for (; at < path.length - 1; at++) {
      const inner = memberOf(node, path[at])
      if (inner === undefined) break
      node = inner
    }
    if (!isMap(node)) throw new Error(`${path.slice(0, at).join('.')} is not a mapping in the text`)
    const rest = path.slice(at + 1)
    const whole = rest.reduceRight<unknown>((inner, key) => ({ [key]: inner }), value)
    const key = pairOf(node, path[at])?.key ?? path[at]
    const created = this.#document.createNode(whole)
    visit(created, {
      Map(_key, map) {
        map.flow = map.items.every(({ value: member }) => isScalar(member))
      },
    })
    node.flow = false
    node.set(key, created)
  }

  #nodeAt(path: Path): unknown {
    return path.reduce<unknown>((node, step) => {
      const inner = memberOf(node, step)
      // The same node stands at another place too.
      if (isAlias(inner)) throw new Error(`${path.join('.')} is an alias; write it out to let it be edited`)
      return inner
    }, this.#document.contents)
  }
}

function memberOf(node: unknown, step: string | number | undefined): unknown {
  if (isSeq(node)) return typeof step === 'number' ? node.items[step] : undefined
  return isMap(node) ? pairOf(node, step)?.value : undefined
}

function pairOf(map: YAMLMap, step: string | number | undefined) {
  const named = (names: readonly string[]) =>
    map.items.find(({ key }) => names.includes(String(isScalar(key) ? key.value : key)))
  return named([String(step)]) ?? named(spellingsOf(String(step)))
}

function commented<T>(item: T, comments: readonly string[]): T {
  if (comments.length === 0 || !isScalar(item)) return item
  const before = item.commentBefore
  item.commentBefore = [...comments, ...(before === undefined || before === null ? [] : [before])].join('\n')
  return item
}
