/** A folder to be declared with `using`. */
export declare class TemporaryDir implements Disposable {
  readonly path: string;
  [Symbol.dispose](): void
}
/** A fresh folder for each test of the calling suite. */
export declare function temporaryDir(): {
  readonly path: string
}
